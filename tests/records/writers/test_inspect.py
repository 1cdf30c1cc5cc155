"""`convert` to a log that Inspect reads: what each row becomes, and what the log says of all of them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import steelyard as sy
from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.declining import declines
from steelyard.records.readers import read_as_is
from steelyard.records.writers import write_records, writer_of
from steelyard.records.writers.inspect import REPLIED
from tests.support.commands import command
from tests.support.hostile import PAYLOADS

VALUES = {"C": 1.0, "I": 0.0, "N": 0.0}


def written(rows: Sequence[dict[str, Any]], folder: Path, **reading: Any) -> tuple[dict[str, Any], list[str]]:
    """The log of some rows, and what was said of it."""
    source, target = folder / "answers.jsonl", folder / "log.inspect.json"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = write_records(read_as_is(source, **reading), target)
    text = target.read_text()
    return json.loads(text, parse_constant=lambda word: pytest.fail(word)), said


def row(item: Any = "q1", **more: Any) -> dict[str, Any]:
    return {"item": item, "model": "m", "task": "t", "target": "A", "prediction": "A", **more}


def test_every_outcome_is_told_as_inspect_tells_it(tmp_path: Path) -> None:
    rows = [
        row("right"),
        row("wrong", prediction="B"),
        row("declined", prediction=None, outcome="abstained"),
        row("unread", prediction=None, outcome="unparsed"),
        row("failed", prediction=None, outcome="failed"),
        row("unknown", target=None),
    ]
    log, said = written(rows, tmp_path)
    samples = {sample["id"]: sample for sample in log["samples"]}
    scores = {name: sample.get("scores", {}).get("steelyard") for name, sample in samples.items()}
    assert scores["right"] == {"value": "C", "answer": "A"}
    assert scores["wrong"] == {"value": "I", "answer": "B"}
    assert scores["declined"] == {"value": "N", "answer": "", "reason": "abstained"}
    assert scores["unread"] == {"value": "I", "answer": "", "reason": "unparsed"}
    assert scores["failed"] is scores["unknown"] is None
    assert samples["failed"]["error"] == {"message": "the question failed", "traceback": "", "traceback_ansi": ""}
    assert [name for name, sample in samples.items() if "error" in sample] == ["failed"]
    assert samples["wrong"]["output"]["completion"] == "B"
    declined, unread, failed = (samples[name]["output"] for name in ("declined", "unread", "failed"))
    assert declined["completion"] == "[the model declined; its words are not in the table]"
    assert unread["completion"] == "[the reply could not be read; its words are not in the table]"
    assert failed == {"model": "m", "completion": ""}  # nothing was replied
    told = "replies that the table does not have (declined, or not to be read) are told in brackets in their place"
    assert said == ["1 row has no score, as nobody says what is right; so no accuracy is stated", f"2 {told}"]
    assert (log["version"], log["status"]) == (2, "success")
    assert log["results"]["total_samples"] == 6
    assert log["results"]["completed_samples"] == 5
    (score,) = log["results"]["scores"]
    assert (score["scored_samples"], score["unscored_samples"]) == (4, 2)
    assert score["metrics"] == {}  # what they would say is not known
    assert samples["unknown"]["metadata"] == {"steelyard": {"outcome": "answered", "answer": "A"}}


def test_a_reply_that_is_known_is_never_replaced(tmp_path: Path) -> None:
    rows = [row(outcome, prediction=None, outcome=outcome, completion="Hm.") for outcome in ("abstained", "unparsed")]
    log, said = written(rows, tmp_path)
    assert [sample["output"]["completion"] for sample in log["samples"]] == ["Hm.", "Hm."]
    assert said == []


def test_what_stands_for_a_reply_is_no_phrase_of_declining() -> None:
    assert not declines(REPLIED["unparsed"])


def test_what_is_known_beyond_the_answer_is_kept(tmp_path: Path) -> None:
    given = row(
        repeat=2,
        input="Which?",
        completion="I think A",
        latency_ms=1500,
        input_tokens=7,
        output_tokens=3,
        confidence=0.9,
        group={"site": "north", "ward": "w1"},
        metadata={"patient": "p1", "ward": "other"},
        messages=[{"role": "user"}],
        strategy="plain",
    )
    log, _ = written([row(repeat=1, latency_ms=None, group={"site": None}, strategy="plain"), given], tmp_path)
    first, sample = log["samples"]
    assert (sample["epoch"], sample["input"], sample["target"]) == (2, "Which?", "A")
    assert sample["output"]["completion"] == "I think A"
    assert sample["output"]["choices"][0]["message"]["content"] == "I think A"
    assert sample["scores"]["steelyard"] == {"value": "C", "answer": "A"}
    assert sample["total_time"] == sample["output"]["time"] == 1.5
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    assert sample["output"]["usage"] == sample["model_usage"]["m"] == log["stats"]["model_usage"]["m"] == usage
    assert sample["metadata"] == {
        "confidence": 0.9,
        "site": "north",
        "group.ward": "w1",
        "patient": "p1",
        "ward": "other",
        "messages": [{"role": "user"}],
        "strategy": "plain",
    }
    assert "model_usage" not in first
    assert "total_time" not in first
    assert first["metadata"] == {"strategy": "plain"}
    assert (log["eval"]["task"], log["eval"]["model"]) == ("t", "m")
    assert log["eval"]["dataset"] == {"name": "t", "samples": 1}
    assert log["eval"]["config"] == {"epochs": 2}
    (source,) = log["eval"]["metadata"]["sources"]
    assert source["rows"] == 2
    assert len(source["sha256"]) == 64


@pytest.mark.parametrize(
    ("repeats", "epochs", "named"),
    [
        ([1, 2, 3], [1, 2, 3], False),
        ([3, 7, 5], [3, 7, 5], False),
        ([0, 1, 2], [1, 2, 3], True),
        (["b", "a", "c"], [2, 1, 3], True),
        ([1, None, 3], [2, 1, 3], True),
        ([None, None], [1, 1], False),
    ],
)
def test_repeats_are_epochs(tmp_path: Path, repeats: list[Any], epochs: list[int], named: bool) -> None:
    log, said = written([row(f"q{i}", repeat=repeat) for i, repeat in enumerate(repeats)], tmp_path)
    assert [sample["epoch"] for sample in log["samples"]] == epochs
    kept = [sample["metadata"].get("repeat") for sample in log["samples"]]
    assert kept == (repeats if named else [None] * len(repeats))
    assert any("numbered from 1" in each for each in said) is named


@pytest.mark.parametrize("name", ["model", "task", "strategy", "perturbation"])
def test_a_log_is_of_one_task_and_model(tmp_path: Path, name: str) -> None:
    rows = [row("q1", **{name: "x"}), row("q1", **{name: "y"})]
    with pytest.raises(UsageError, match=rf"the rows differ in '{name}'.*`where={name}=…`"):
        written(rows, tmp_path)
    assert not (tmp_path / "log.inspect.json").exists()
    log, _ = written(rows, tmp_path, where={name: "y"})
    assert len(log["samples"]) == 1


def test_the_original_has_one_spelling_more(tmp_path: Path) -> None:
    log, _ = written([row("q1", perturbation="none"), row("q2", perturbation=None)], tmp_path)
    assert len(log["samples"]) == 2


def test_rules_at_the_door_hold(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the same record appears twice"):
        written([row(), row()], tmp_path)
    with pytest.raises(InputError, match="the column 'item' is required"):
        written([{"question_id": 1, "label": "A"}], tmp_path)
    with pytest.raises(InputError, match="one of answered, abstained"):
        written([row(outcome="gone")], tmp_path)
    assert not (tmp_path / "log.inspect.json").exists()


def test_marks_win_and_may_lie_between(tmp_path: Path) -> None:
    log, _ = written([row("a", mark=0), row("b", mark=1), row("c", mark=0.5)], tmp_path)
    assert [sample["scores"]["steelyard"]["value"] for sample in log["samples"]] == ["I", "C", 0.5]
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 0.5


def test_texts_are_compared_as_they_are_when_they_are_evaluated(tmp_path: Path) -> None:
    log, _ = written([row(prediction="A\t")], tmp_path)
    (sample,) = log["samples"]
    assert sample["scores"]["steelyard"] == {"value": "C", "answer": "A\t"}


@pytest.mark.parametrize(
    ("target", "prediction", "shown", "value"),
    [
        (1, 1, "1", "C"),
        (1.5, 2.0, "1.5", "I"),
        (True, True, "true", "C"),
        (["a", "b"], ["a"], ["a", "b"], None),
        (None, "a", "", None),
    ],
)
def test_targets_of_every_kind(tmp_path: Path, target: Any, prediction: Any, shown: Any, value: str | None) -> None:
    log, _ = written([row(target=target, prediction=prediction)], tmp_path)
    (sample,) = log["samples"]
    assert sample["target"] == shown
    assert sample.get("scores", {}).get("steelyard", {}).get("value") == value


def test_rows_that_nobody_can_score_are_still_samples(tmp_path: Path) -> None:
    log, said = written([{"item": 1, "score": 0.5}], tmp_path)
    assert log["results"]["scores"] == []
    assert log["samples"][0]["metadata"] == {"score": 0.5, "steelyard": {"outcome": "answered"}}
    assert (log["eval"]["task"], log["eval"]["model"]) == ("answers", "none/none")
    assert "the rows name no model, which a log needs; this one says 'none/none'" in said


def test_half_characters_become_escapes(tmp_path: Path) -> None:
    log, said = written([row("q\ud800", prediction="\udfffx", note="\ud800\ud801")], tmp_path)
    (sample,) = log["samples"]
    assert sample["id"] == "q\\ud800"
    assert sample["output"]["completion"] == "\\udfffx"
    assert sample["metadata"]["note"] == "\\ud800\\ud801"
    assert said == []


def test_equal_answers_give_equal_logs(tmp_path: Path) -> None:
    rows = [row("q1"), row("q2", prediction=None)]
    first, _ = written(rows, tmp_path)
    again, _ = written(rows, tmp_path)
    for log in (first, again):
        del log["eval"]["created"]
    assert first == again
    other, _ = written([*rows, row("q3")], tmp_path)
    assert other["eval"]["eval_id"] != first["eval"]["eval_id"]


def test_what_was_cut_short_is_said_to_be(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text(json.dumps(row("q1")) + "\n" + '{"item": "q')
    write_records(read_as_is(source, salvage=True), tmp_path / "a.inspect.json")
    assert json.loads((tmp_path / "a.inspect.json").read_text())["status"] == "cancelled"


def test_the_suffix_is_its_own_and_is_never_packed() -> None:
    assert writer_of(Path("A.Inspect.JSON")).name == "inspect"
    for name in ("a.json", "a.inspect.json.gz", "inspect.json.gz"):
        with pytest.raises(UsageError, match=r"\.inspect\.json"):
            writer_of(Path(name))


def test_the_command_says_which_rows_to_keep(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row(model=m)) + "\n" for m in ("x", "y")))
    done = command("convert", tmp_path / "a.jsonl", tmp_path / "a.inspect.json")
    assert done.code == 2
    assert "--where model=…" in done.err
    done = command("convert", tmp_path / "a.jsonl", tmp_path / "x.inspect.json", "--where", "model=x")
    assert done.code == 0, done.err
    assert done.out == f"wrote {tmp_path / 'x.inspect.json'}: 1 row, 5 columns\n"


answers = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.integers(1, 3),
        st.sampled_from(["answered", "abstained", "unparsed", "failed"]),
        st.sampled_from(["A", "B"]),
        st.sampled_from(["A", "B", None]),
    ),
    min_size=1,
    max_size=12,
    unique_by=lambda each: each[:2],
)


@given(answers)
def test_the_results_follow_from_the_samples(tmp_path_factory: pytest.TempPathFactory, rows: list[Any]) -> None:
    made = [
        row(f"q{i}", repeat=repeat, outcome=o, target=target, prediction=prediction if o == "answered" else None)
        for i, repeat, o, prediction, target in rows
    ]
    log, _ = written(made, tmp_path_factory.mktemp("log"))
    by_item: dict[str, list[float]] = {}
    for sample in log["samples"]:
        for score in sample.get("scores", {}).values():
            by_item.setdefault(sample["id"], []).append(VALUES[score["value"]])
    means = [statistics.fmean(scores) for scores in by_item.values()]
    results = log["results"]
    assert results["total_samples"] == len(rows)
    assert results["completed_samples"] == sum(outcome != "failed" for _, _, outcome, *_ in rows)
    if not means:
        assert results["scores"] == []
        return
    (score,) = results["scores"]
    assert score["scored_samples"] == len(means)
    if not all("scores" in sample or "error" in sample for sample in log["samples"]):
        assert score["metrics"] == {}
        return
    assert score["metrics"]["accuracy"]["value"] == pytest.approx(statistics.fmean(means))
    spread = statistics.stdev(means) / len(means) ** 0.5 if len(means) > 1 else 0.0
    assert score["metrics"]["stderr"]["value"] == pytest.approx(spread)


cells = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()))


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["item", "repeat", "model", "target", "prediction", "outcome", "mark", "latency_ms", "x"]),
            cells,
        ),
        max_size=4,
    )
)
def test_whatever_the_rows_hold_there_is_a_log_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("log")
    try:
        log, _ = written(rows, folder)
    except SteelyardError:
        assert not (folder / "log.inspect.json").exists()
    else:
        assert len(log["samples"]) == len(rows)


def test_hostile_names_are_data(tmp_path: Path) -> None:
    log, _ = written([row(f"{p} {i}", note=p, group={f"g{p}": p}) for i, p in enumerate(PAYLOADS)], tmp_path)
    assert len(log["samples"]) == len(PAYLOADS)
    for suffix in (".jsonl", ".csv", ".parquet"):
        assert command("convert", tmp_path / "answers.jsonl", tmp_path / f"b{suffix}").code == 0


def test_what_became_of_a_row_is_read_again_where_nobody_says_what_is_right(tmp_path: Path) -> None:
    outcomes = ("answered", "abstained", "unparsed", "failed")
    written([row(o, target=None, prediction="A" if o == "answered" else None, outcome=o) for o in outcomes], tmp_path)
    again = sy.read(tmp_path / "log.inspect.json")
    assert again.column("outcome").to_pylist() == list(outcomes)
    assert again.column("prediction").to_pylist() == ["A", None, None, None]


@pytest.mark.parametrize(
    "rows",
    [
        [row("right"), row("wrong", prediction="B"), row("unknown", target=None, completion="It is A.")],
        [row("right", mark=1), row("unknown", mark=None, prediction="B"), row("wrong", mark=0)],
        [row(f"{a}{b}", target=a, prediction=b) for a in ("pass", "fail") for b in ("pass", "fail")],
        [row("right"), row("unread", prediction=None, outcome="unparsed", completion="I don't know")],
        [row(f"q{place}", prediction=None, outcome="unparsed") for place in range(3)],
        [row(f"q{place}", prediction=None, outcome="abstained") for place in range(3)],
        [row("right", target="I don't know", prediction="I don't know"), row("other", prediction="None")],
        [row("wrong", prediction="I don't know", outcome="answered"), row("right")],
    ],
)
def test_what_was_written_is_read_again(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    log, _ = written(rows, tmp_path)
    first, again = (sy.read(tmp_path / name) for name in ("answers.jsonl", "log.inspect.json"))
    for name in ("item", "prediction"):
        assert again.column(name).to_pylist() == first.column(name).to_pylist()
    assert again.outcome.tolist() == first.outcome.tolist()
    assert np.array_equal(again.array("correct"), first.array("correct"), equal_nan=True)
    accuracies = [sy.evaluate(each, ["accuracy"], resamples=0)["accuracy"] for each in (first, again)]
    assert accuracies[0].value == accuracies[1].value
    assert accuracies[0].n == accuracies[1].n
    assert all(each.agrees for each in again.sources[0].declared)
    is_judged = all("scores" in sample or "error" in sample for sample in log["samples"])
    assert bool(again.sources[0].declared) is is_judged
