"""Labels as people write them: white space, case, full stops, and texts that mean no answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard import UsageError, read
from steelyard.records.answers import LabelRules, stripped
from steelyard.records.schema import text_array
from tests.support.commands import command

BLANKS = " \t\n\r\x0b\x0c\u00a0\ufeff"
TARGETS = ["Yes", "No", "Yes", "No", "Yes", "No"]
PREDICTIONS = ["yes.", " No", "YES", "I don't know", "n/a", "no"]


def files(folder: Path, targets: list[Any], predictions: list[Any]) -> list[Any]:
    """The same answers in every way that people have them."""
    rows = [
        {"item": i, "target": t, "prediction": p} for i, (t, p) in enumerate(zip(targets, predictions, strict=True))
    ]
    lines, cells, array = folder / "a.jsonl", folder / "a.csv", folder / "a.json"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    array.write_text(json.dumps(rows))
    cells.write_text(
        "item,target,prediction\n" + "".join(f'{r["item"]},"{r["target"]}","{r["prediction"]}"\n' for r in rows)
    )
    return [lines, array, cells, rows, pandas.DataFrame(rows)]


@given(st.lists(st.none() | st.text(st.sampled_from(BLANKS + "ab\x85\x1f\u2028é"), max_size=4), max_size=8))
def test_white_space_is_removed_as_it_says(values: list[str | None]) -> None:
    column, count = stripped(text_array(values))
    expected = [None if value is None else value.strip(BLANKS) for value in values]
    assert column.to_pylist() == expected
    assert count == sum(one != two for one, two in zip(values, expected, strict=True))


def test_slices_of_arrays_are_stripped_as_they_are() -> None:
    column, count = stripped(pa.array(["x ", " a", None, "b ", "y "]).slice(1, 3))
    assert (column.to_pylist(), count) == (["a", None, "b"], 2)


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize(
    ("labels", "correct", "outcomes"),
    [
        ("exact", [0, 0, 0, 0, 0, 0], {"answered": 6}),
        ("strip", [0, 1, 0, 0, 0, 0], {"answered": 4, "abstained": 1, "unparsed": 1}),
        ("fold", [1, 1, 1, 0, 0, 1], {"answered": 4, "abstained": 1, "unparsed": 1}),
    ],
)
def test_labels_in_every_format_alike(
    tmp_path: Path, place: int, labels: str, correct: list[int], outcomes: dict[str, int]
) -> None:
    source = files(tmp_path, TARGETS, PREDICTIONS)[place]
    said: dict[str, Any] = {"abstain": "I don't know", "unparsed": ["N/A"]} if labels == "fold" else {}
    said = {"abstain": ["I don't know"], "unparsed": ["n/a"]} if labels == "strip" else said
    records = read(source, labels=labels, **said)
    assert records.array("correct").tolist() == correct
    assert {name: n for name, n in records.counts().items() if n} == outcomes
    removed = "white space around 1 value of 'prediction' was removed; `labels=exact` keeps it"
    assert (removed in records.warnings) == (labels != "exact")
    assert records.labels("target").values == (("no", "yes") if labels == "fold" else ("No", "Yes"))
    if labels == "fold":
        task = {"labels": ["Yes", "No"]}
        assert read(source, labels="fold", task=task).labels("target").values == ("No", "Yes")


def test_runs_that_spell_their_labels_differently_are_compared() -> None:
    base = [{"item": i, "target": "Yes" if i % 2 else "yes", "prediction": "YES"} for i in range(10)]
    new = [{**row, "target": "YES.", "prediction": "no"} for row in reversed(base)]
    assert sy.compare(base, new, ["accuracy"], labels="fold", resamples=0)["accuracy"].delta == -1.0


def test_a_stated_outcome_other_than_answered_wins() -> None:
    rows = [{"item": i, "target": "a", "prediction": "a", "outcome": "answered"} for i in range(9)]
    rows.append({"item": 9, "target": "a", "prediction": "IDK", "outcome": "failed"})
    records = read(rows, abstain="IDK")
    assert records.counts() == {"answered": 9, "abstained": 0, "unparsed": 0, "failed": 1}
    wrong = [{**row, "outcome": 1} for row in rows]
    with pytest.raises(sy.InputError, match="outcome: text is expected"):
        read(wrong, abstain="IDK")
    with pytest.raises(sy.InputError, match="outcome: text is expected"):
        read(pa.Table.from_pylist(wrong), abstain="IDK")


def test_files_whose_predictions_do_not_meet_are_refused_with_the_clash(tmp_path: Path) -> None:
    for name, rows in (("1.csv", "1,1,1\n2,2,IDK\n"), ("2.csv", "3,a,b\n4,b,IDK\n")):
        (tmp_path / name).write_text(f"item,target,prediction\n{rows}")
    with pytest.raises(sy.InputError, match="holds text here and a whole number in"):
        read([tmp_path / "1.csv", tmp_path / "2.csv"], abstain="IDK")


def test_half_characters_fold_as_others_do() -> None:
    records = read([{"item": 1, "target": "\ud800A", "prediction": "\ud800a."}], labels="fold")
    assert records.array("correct").tolist() == [1.0]


@pytest.mark.parametrize("place", range(5))
def test_a_unit_is_one_unit_in_every_format(tmp_path: Path, place: int) -> None:
    source = files(tmp_path, ["p1", "p1 ", "p2", "p2"], ["a", "a", "a", "a"])[place]
    records = read(source, map={"cluster": "target"})
    assert len(records.cluster[0]) == 2
    assert "white space around 1 value of 'cluster' was removed; `labels=exact` keeps it" in records.warnings


@pytest.mark.parametrize("place", range(5))
def test_rows_that_count_as_declined_are_counted_once(tmp_path: Path, place: int) -> None:
    source = files(tmp_path, ["a"] * 5, ["IDK", "a", "IDK", "b", "IDK"])[place]
    said = [each for each in read(source, abstain="IDK").warnings if "abstain" in each]
    assert said == ["3 predictions count as abstained: the text is one of `abstain=`"]


def test_rows_whose_outcome_was_stated_are_not_said_to_be_declined() -> None:
    rows = [{"item": 1, "prediction": "IDK", "outcome": "failed"}, {"item": 2, "prediction": "IDK", "outcome": None}]
    said = [each for each in read(rows, abstain="IDK").warnings if "abstain" in each]
    assert said == ["1 prediction counts as abstained: the text is one of `abstain=`"]


def test_a_label_never_poses_as_an_option() -> None:
    rows = [{"item": i, "target": "a", "prediction": "`drop=target`"} for i in range(3)]
    (warning,) = [w for w in sy.evaluate(rows, ["accuracy"], resamples=0).warnings if "never" in w]
    assert "`" not in warning


@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("predictions", [[1, "I don't know", 2, "?"], ["I don't know", 1, "?", 2]])
def test_numbers_next_to_texts_that_mean_declining(tmp_path: Path, place: int, predictions: list[Any]) -> None:
    rows = [{"item": i, "target": 1 + i % 2, "prediction": p} for i, p in enumerate(predictions)]
    source: Any = [*files(tmp_path, [1, 2, 1, 2], predictions)[:4], pandas.DataFrame(rows)][place]
    records = read(source, abstain="I don't know", unparsed="?")
    assert records.column("prediction").to_pylist() == [p if isinstance(p, int) else None for p in predictions]
    assert records.counts() == {"answered": 2, "abstained": 1, "unparsed": 1, "failed": 0}
    assert records.is_numeric("target")


def test_a_number_may_mean_declining(tmp_path: Path) -> None:
    records = read(files(tmp_path, [1, 0, 1], [1, -1, 0])[0], abstain="-1")
    assert records.counts()["abstained"] == 1


def test_a_stated_outcome_gives_way_to_a_text_that_means_another() -> None:
    rows = [{"item": 1, "prediction": "pass", "outcome": "answered"}, {"item": 2, "prediction": "a", "outcome": None}]
    records = read(rows, abstain="PASS", labels="fold")
    assert records.counts() == {"answered": 1, "abstained": 1, "unparsed": 0, "failed": 0}


def test_a_task_file_says_what_means_declining(tmp_path: Path) -> None:
    path = files(tmp_path, TARGETS, PREDICTIONS)[0]
    (tmp_path / "a.task.yaml").write_text('abstain: ["I don\'t know"]\nunparsed: n/a\n')
    assert read(path).counts() == {"answered": 4, "abstained": 1, "unparsed": 1, "failed": 0}
    (tmp_path / "a.task.yaml").write_text("abstain: [1]\n")
    with pytest.raises(UsageError, match="abstain is a text or a list of texts"):
        read(path)


def test_requests_that_contradict_themselves() -> None:
    rows = [{"item": 1, "target": "a"}]
    with pytest.raises(UsageError, match="no column 'prediction'"):
        read(rows, abstain="x")
    with pytest.raises(UsageError, match="in `abstain=` and `unparsed=`"):
        LabelRules(labels="fold", abstain=("Pass.",), unparsed=("pass",))
    with pytest.raises(UsageError, match="`labels=` is one of exact, strip, fold"):
        read(rows, labels="loose")  # type: ignore[arg-type]


def test_labels_that_no_target_has_are_named_with_what_mends_them() -> None:
    rows = [
        {"item": i, "target": "Yes" if i % 2 else "No", "prediction": p}
        for i, p in enumerate(["yes.", "yes.", "I don't know", "Nope", "No", "Yes", "zzz"])
    ]
    (warning,) = [w for w in sy.evaluate(rows, ["accuracy"], resamples=0).warnings if "never a target" in w]
    assert warning == (
        "4 predicted labels are never a target, in 5 rows: 'I don't know' (1), which means declining with "
        "`abstain=I don't know`, 'Nope' (1), nearest to 'No', 'yes.' (2), which is 'Yes' with `labels=fold`, 'zzz' (1)"
    )


def test_labels_that_may_be_names_are_only_counted() -> None:
    rows = [{"item": i, "target": f"Person {i}", "prediction": f"Patient {i}"} for i in range(60)]
    warnings = sy.evaluate(rows, ["accuracy"], resamples=0).warnings
    assert "60 predicted labels are never a target, in 60 rows; check for misspelt or unclean labels" in warnings
    assert not any("Patient" in each for each in warnings)


def test_the_command_takes_and_suggests_the_same(tmp_path: Path) -> None:
    path = files(tmp_path, TARGETS, PREDICTIONS)[0]
    done = command("evaluate", path, "-m", "accuracy", "--resamples", 0)
    assert done.code == 0, done.err
    assert 'which means declining with --abstain "I don\'t know"' in done.out
    assert "which is 'Yes' with --labels fold" in done.out
    options = ("--labels", "fold", "--abstain", "I don't know", "--unparsed", "n/a")
    again = command("evaluate", path, "-m", "accuracy", "--resamples", 0, "--format", "json", *options)
    assert again.json["population"] == {"rows": 6, "answered": 4, "abstained": 1, "unparsed": 1, "failed": 0}
    refused = command("evaluate", path, "--labels", "loose")
    assert (refused.code, "--labels is one of exact, strip, fold" in refused.err) == (2, True)
