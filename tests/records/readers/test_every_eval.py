"""Runs of Every Eval Ever: the aggregate with its samples, either from the other, and folders of them."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import steelyard as sy
from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.readers import read
from steelyard.records.table import Records
from tests.support.commands import command
from tests.support.every_eval import UUID, aggregate, attribution, lines, result, sample, written
from tests.support.mutations import DEEP, mutated

SECRET = "SECRET-PATIENT"
FOUR = [sample("q1"), sample("q2", "routine"), sample("q3"), sample("q4")]


def column(table: Records, name: str) -> list[Any]:
    return list(table.column(name).to_pylist())


def rows(table: Records, *names: str) -> list[tuple[Any, ...]]:
    return list(zip(*(column(table, name) for name in names), strict=True))


def records(folder: Path, *samples: dict[str, Any], **options: Any) -> Records:
    return read(written(folder, samples), **options)


def said(table: Records) -> list[str]:
    return [warning.partition(": ")[2] for warning in table.warnings]


# -- what a sample becomes ---------------------------------------------------------------------------------------------


def test_a_sample_is_a_row(tmp_path: Path) -> None:
    table = records(tmp_path, *FOUR)
    assert rows(table, "item", "repeat", "task", "model") == [
        (f"q{n}", 1, "triage", "acme/small") for n in (1, 2, 3, 4)
    ]
    assert rows(table, "target", "prediction", "outcome", "mark", "score")[1] == (
        "urgent",
        "routine",
        "answered",
        False,
        0,
    )
    assert rows(table, "latency_ms", "input_tokens", "output_tokens", "metadata.site")[0] == (12.5, 9, 3, "north")
    assert column(table, "performance.generation_time_ms") == [10.0] * 4
    assert table.warnings == ()


def test_the_answer_is_what_was_found_last_and_otherwise_the_reply(tmp_path: Path) -> None:
    talk = [
        {"turn_idx": 0, "role": "assistant", "content": "first"},
        {"turn_idx": 1, "role": "assistant", "content": "last"},
        {"turn_idx": 2, "role": "tool", "content": "tool"},
    ]
    table = records(
        tmp_path,
        sample("q1", answer_attribution=[attribution("a"), attribution("b"), attribution("c", terminal=False)]),
        sample("q2", answer_attribution=[], output={"raw": ["", "whole"]}),
        sample("q3", answer_attribution=[], output=None, messages=talk, interaction_type="multi_turn"),
    )
    assert column(table, "prediction") == ["b", "whole", "last"]


def test_one_reference_is_the_target_and_several_are_none(tmp_path: Path) -> None:
    several = sample("q2", reference=("urgent", "soon"))
    table = records(tmp_path, sample("q1", reference=("urgent", "urgent")), several, sample("q3", reference=()))
    assert column(table, "target") == ["urgent", None, None]
    assert column(table, "mark") == [True, True, False]


def test_outcomes_go_by_the_rules(tmp_path: Path) -> None:
    table = records(
        tmp_path,
        sample("q1", "I don't know"),
        sample("q2", ""),
        sample("q3", "", output={"raw": []}),
        sample("q4", error="timeout after 60 s"),
        sample("q5", "No.", error="refusal"),
        sample("q6", metadata={"should_abstain": "True"}),
    )
    assert column(table, "outcome") == ["abstained", "unparsed", "failed", "failed", "abstained", "answered"]
    assert column(table, "prediction") == [None] * 5 + ["urgent"]
    assert column(table, "should_abstain") == [None] * 5 + [True]
    assert "1 of 6 samples counts as failed: the sample states an error" in said(table)


def test_equal_samples_are_repeats_and_different_ones_of_one_id_are_said(tmp_path: Path) -> None:
    again = records(tmp_path, sample("q1"), sample("q1", "routine"), sample("q1", model_id="acme/large"))
    assert column(again, "repeat") == [1, 2, 1]
    assert again.warnings == ()
    table = records(tmp_path, sample("q1"), sample("q1", sample_hash="ab"))
    assert column(table, "repeat") == [1, 2]
    assert any("1 id stands for samples that differ in sample_hash" in each for each in said(table))
    apart = read(written(tmp_path, [sample("q1"), sample("q1", sample_hash="ab")]), map={"item": "sample_hash"})
    assert len(set(column(apart, "item"))) == 2


def test_results_of_one_sample_are_tasks_and_a_scorer_chooses(tmp_path: Path) -> None:
    other = {"evaluation_result_id": "judge:accuracy", "evaluation": {"score": 0.0, "is_correct": False}}
    samples = [sample("q1"), sample("q1", **other), sample("q2", evaluation_name="dosing")]
    table = records(tmp_path, *samples)
    assert column(table, "task") == ["triage/match:accuracy", "triage/judge:accuracy", "dosing"]
    assert column(table, "repeat") == [1, 1, 1]
    chosen = records(tmp_path, *samples, scorer="judge:accuracy")
    assert rows(chosen, "item", "mark") == [("q1", False)]
    assert any("2 of 3 rows belong to other results than `scorer=` names" in each for each in said(chosen))
    with pytest.raises(UsageError, match="no scorer 'judge:acuracy'; did you mean 'judge:accuracy'"):
        records(tmp_path, *samples, scorer="judge:acuracy")


def test_where_nothing_is_correct_although_there_are_scores_nobody_marked(tmp_path: Path) -> None:
    graded = [sample(f"q{n}", evaluation={"score": n / 4, "is_correct": False}) for n in range(4)]
    table = records(tmp_path, *graded)
    assert column(table, "mark") == [None] * 4
    assert any("nothing in 'triage' is correct, although there are scores" in each for each in said(table))
    (estimate,) = sy.evaluate(table, ["mean(score)"], resamples=0)
    assert estimate.value == 0.375
    some = records(tmp_path, *graded, sample("q9"))
    assert column(some, "mark") == [False] * 4 + [True]
    assert any("more than right and wrong" in each for each in said(some))
    assert column(records(tmp_path, sample("q1", "routine")), "mark") == [False]


# -- files that belong together ----------------------------------------------------------------------------------------


def test_the_aggregate_and_its_samples_are_one_run_from_either_side(tmp_path: Path) -> None:
    document = written(tmp_path, FOUR, aggregate(result(0.75, count=4), total_rows=4))
    beside = document.with_name(f"{UUID}_samples.jsonl")
    for path, other in ((document, beside), (beside, document)):
        table = read(path)
        assert column(table, "item") == ["q1", "q2", "q3", "q4"]
        assert [source.name for source in table.sources] == [str(path), str(other)]
        digests = [hashlib.sha256(each.read_bytes()).hexdigest() for each in (path, other)]
        assert [source.sha256 for source in table.sources] == digests
        (declared,) = table.sources[0].declared
        assert (declared.name, declared.stated, declared.recomputed) == ("triage: match:accuracy", 0.75, 0.75)
        assert table.sources[0].about == {
            "tool": "inspect_ai",
            "tool_version": "0.3",
            "run_id": "triage/acme/small/1700000000",
            "task": "triage",
            "model": "acme/small",
            "created": "1700000000",
            "temperature": "0.5",
        }
        assert table.warnings == ()


def test_a_score_that_the_samples_do_not_give_is_shown(tmp_path: Path) -> None:
    table = read(written(tmp_path, FOUR, aggregate(result(0.5), result(0.9, metric="f1_macro"))))
    assert said(table) == ["the log states triage: match:accuracy = 0.5, its rows give 0.75"]
    percent = result(75.0)
    percent["metric_config"]["metric_unit"] = "percent"
    assert said(read(written(tmp_path, FOUR, aggregate(percent)))) == []


def test_scores_without_an_id_belong_to_the_one_result_of_their_name(tmp_path: Path) -> None:
    samples = [{key: value for key, value in each.items() if key != "evaluation_result_id"} for each in FOUR]
    table = read(written(tmp_path, samples, aggregate(result(0.5))))
    assert table.sources[0].declared[0].recomputed == 0.75


@pytest.mark.parametrize(
    ("document", "excerpt"),
    [
        (aggregate(result(0.75), total_rows=9), "4 of 9 rows that the aggregate counts"),
        (aggregate(result(0.75, count=10)), "4 of 10 samples behind triage: match:accuracy"),
        (aggregate(result(0.75, count=4), total_rows=4), ""),
        (aggregate(result(0.75, count=2)), ""),
    ],
)
def test_fewer_samples_than_stated_are_an_excerpt(tmp_path: Path, document: Any, excerpt: str) -> None:
    path = written(tmp_path, FOUR, document)
    assert read(path).sources[0].excerpt == excerpt
    done = command("evaluate", path, "-m", "accuracy", "--resamples", 0)
    assert done.code == 0
    assert ("nothing can pass a gate" in done.out + done.err) == bool(excerpt)


def test_a_limit_is_a_note(tmp_path: Path) -> None:
    source = {"dataset_name": "triage", "source_type": "hf_dataset", "samples_number": 100}
    table = read(written(tmp_path, FOUR, aggregate(result(0.75, source_data=source))))
    assert said(table) == ["4 of the 100 samples of the dataset were run"]
    assert table.sources[0].excerpt == ""


def test_samples_that_were_changed_are_said(tmp_path: Path) -> None:
    digest = hashlib.sha256(lines(FOUR).encode()).hexdigest()
    document = aggregate(result(0.75), hash_algorithm="sha256", checksum=digest)
    assert read(written(tmp_path, FOUR, document)).warnings == ()
    changed = read(written(tmp_path, [*FOUR[:3], sample("q5")], document))
    assert any("their checksum differs" in each for each in said(changed))
    assert any(
        "rows name another" in each for each in said(read(written(tmp_path, FOUR, document | {"evaluation_id": "x"})))
    )


@pytest.mark.parametrize("path", [f"../{UUID}_samples.jsonl", f"/etc/{UUID}_samples.jsonl", "..", "", "*.jsonl"])
def test_samples_are_sought_next_to_the_aggregate_only(tmp_path: Path, path: str) -> None:
    written(tmp_path, FOUR)
    document = written(tmp_path / "inner", None, aggregate(result(0.75), file_path=path))
    with pytest.raises(InputError, match="aggregate scores only, and no samples"):
        read(document)
    written(tmp_path / "inner", FOUR[:2], aggregate(result(0.75), file_path=path))
    assert len(read(document)) == 2


def test_a_folder_and_a_zip_archive_hold_all_runs(tmp_path: Path) -> None:
    folder = tmp_path / "data" / "triage"
    large = [each | {"model_id": "acme/large"} for each in FOUR[:2]]
    other = aggregate(result(0.5)) | {"model_info": {"id": "acme/large"}}
    written(folder / "small", FOUR, aggregate(result(0.75)))
    written(folder / "large", large, other, name="b")
    written(folder / "large", None, aggregate(result(0.1)), name="c")
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for path in sorted(folder.rglob("*.json*")):
            archive.write(path, path.relative_to(tmp_path))
    for path in (tmp_path / "data", tmp_path / "all.zip"):
        table = read(path)
        assert sorted(rows(table, "model", "item")) == [("acme/large", f"q{n}") for n in (1, 2)] + [
            ("acme/small", f"q{n}") for n in (1, 2, 3, 4)
        ]
        declared = table.sources[0].declared
        assert {each.name for each in declared} == {
            "triage: match:accuracy (acme/large)",
            "triage: match:accuracy (acme/small)",
        }
        assert all(each.agrees and each.recomputed is not None for each in declared)
        assert table.sources[0].about["tool"] == "inspect_ai"
        assert "model" not in table.sources[0].about
        assert said(table) == ["1 of 3 aggregates have no samples next to them, and are left out"]


def test_torn_samples_are_refused_and_salvaged_also_next_to_the_aggregate(tmp_path: Path) -> None:
    path = written(tmp_path, FOUR, aggregate(result(0.75), total_rows=4))
    beside = path.with_name(f"{UUID}_samples.jsonl")
    beside.write_bytes(beside.read_bytes()[:-50])
    with pytest.raises(InputError, match=r"[^:]*:4: .*`salvage=True` keeps the 3 whole records"):
        read(path)
    table = read(path, salvage=True)
    assert len(table) == 3
    assert table.sources[0].torn
    assert any("was left out; 3 whole records were kept" in each for each in table.warnings)


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ({"sample_id": None, "sample_hash": None}, "sample_id: is missing"),
        ({"evaluation_name": ""}, "evaluation_name: is missing"),
        ({"evaluation": SECRET}, "evaluation: not as Every Eval Ever writes it"),
        ({"input": {"reference": [SECRET, 1]}}, r"input\.reference\[1\]: not as Every Eval Ever writes it"),
        ({"token_usage": {"input_tokens": -1}}, "input_tokens"),
    ],
)
def test_what_is_not_as_it_should_be_is_refused_with_its_place(tmp_path: Path, bad: Any, problem: str) -> None:
    for document in (None, aggregate(result(1.0))):
        with pytest.raises(InputError, match=rf":2: {problem}") as refused:
            read(written(tmp_path, [sample("q1"), sample("q2", **bad)], document))
        assert SECRET not in str(refused.value)


@given(content=mutated([*FOUR[:2], sample(SECRET, error="refusal")]))
def test_samples_with_anything_wrong_are_read_or_refused(tmp_path: Path, content: Any) -> None:
    _survives(written(tmp_path, content))


@given(content=mutated(aggregate(result(0.75, count=4), total_rows=4, checksum="ab", hash_algorithm="sha256")))
def test_aggregates_with_anything_wrong_are_read_or_refused(tmp_path: Path, content: Any) -> None:
    _survives(written(tmp_path, FOUR[:2], content))
    _survives(tmp_path)


@pytest.mark.parametrize("field", ["metadata", "messages", "evaluation"])
def test_what_is_nested_too_deeply_is_read_or_refused(tmp_path: Path, field: str) -> None:
    path = written(tmp_path, [sample("q1", **{field: {"a": "DEEP"}})])
    path.write_text(path.read_text().replace('"DEEP"', DEEP))
    _survives(path)


def _survives(path: Path) -> None:
    for options in ({}, {"scorer": "match:accuracy", "salvage": True}):
        refusal = ""
        try:
            read(path, format="every-eval-ever", **options)
        except SteelyardError as refused:
            refusal = str(refused)
        assert SECRET not in refusal
