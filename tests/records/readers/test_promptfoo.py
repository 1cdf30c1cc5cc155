"""Outputs of promptfoo: real ones on invented messages, and made ones for what those do not show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import steelyard as sy
from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.readers import read
from steelyard.records.readers.choosing import recognised
from steelyard.records.readers.head import Head, look
from steelyard.records.readers.promptfoo import sniff
from steelyard.records.table import Records
from tests.support.commands import command
from tests.support.mutations import DEEP, mutated
from tests.support.places import ROOT
from tests.support.promptfoo import SECRET, document, row, written

DATA = ROOT / "tests" / "data" / "promptfoo"
OUTPUTS = sorted(path.name for path in DATA.iterdir() if path.suffix in (".json", ".jsonl"))


def records(folder: Path, *rows: dict[str, Any], **options: Any) -> Records:
    return read(written(folder, list(rows)), **options)


def column(table: Records, name: str) -> list[Any]:
    return list(table.column(name).to_pylist())


def keys(table: Records) -> list[tuple[Any, ...]]:
    return list(zip(*(column(table, name) for name in ("item", "repeat", "strategy", "model")), strict=True))


def truth(name: str) -> list[dict[str, Any]]:
    text = (DATA / name).read_text()
    rows = map(json.loads, text.splitlines()) if name.endswith("l") else json.loads(text)["results"]["results"]
    return list(rows)


# -- what promptfoo itself wrote ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_output_is_known_without_options_and_agrees_with_itself(name: str) -> None:
    table = read(DATA / name)
    rows = truth(name)
    assert len(table) == len(rows)
    judged = [row["success"] if row["testCase"]["assert"] else None for row in rows]
    marks = [
        mark if outcome != "failed" else "-" for mark, outcome in zip(judged, column(table, "outcome"), strict=True)
    ]
    assert [mark for mark in marks if mark != "-"] == [
        mark
        for mark, outcome in zip(column(table, "mark"), column(table, "outcome"), strict=True)
        if outcome != "failed"
    ]
    assert not [warning for warning in table.warnings if "states" in warning]
    assert all(each.agrees and each.recomputed is not None for each in table.sources[0].declared)


@pytest.mark.parametrize("name", OUTPUTS)
def test_both_forms_are_recognised_whatever_the_file_is_called(name: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes((DATA / name).read_bytes())
    with (tmp_path / "a").open("rb") as stream:
        assert recognised(look("a", stream)[0], "a").name == "promptfoo"


def test_repeats_of_a_test_are_one_item_under_every_prompt_and_provider() -> None:
    table = read(DATA / "triage.jsonl")
    assert len(set(column(table, "item"))) == 3
    assert set(column(table, "repeat")) == {1, 2}
    assert set(column(table, "strategy")) == {"plain", "shouted"}
    assert set(column(table, "model")) == {"first", "second"}
    assert len(set(keys(table))) == 24 == 3 * 2 * 2 * 2
    assert not any(word in item for item in column(table, "item") for word in ("urgent", "p1", "chest"))


def test_the_two_forms_give_the_same_records() -> None:
    whole, lines = read(DATA / "structured.json"), read(DATA / "structured.jsonl")
    assert whole.stated == lines.stated
    assert all(column(whole, name) == column(lines, name) for name in whole.stated)


def test_the_run_and_its_counts_are_declared_and_recomputed() -> None:
    source = read(DATA / "structured.json").sources[0]
    assert source.about["tool"] == "promptfoo"
    assert source.about["tool_version"] == "0.121.20"
    assert source.about["task"] == "structured answers"
    assert source.about["run_id"].startswith("eval-")
    stated = {each.name: each.stated for each in source.declared}
    assert stated["testErrorCount ({{reply}}, failing)"] == 1
    assert stated["score ({{reply}}, echo)"] == 3.75
    assert (stated["successes"], stated["failures"], stated["errors"]) == (5, 4, 1)
    assert source.excerpt == ""


def test_errors_and_empty_outputs_are_failed_and_assertions_that_do_not_hold_are_not() -> None:
    table = read(DATA / "structured.json", map={"item": "metadata.id"})
    outcome = {(item, model): each for item, model, each in _triples(table, "outcome")}
    assert outcome["s3", "failing"] == outcome["s4", "failing"] == "failed"
    assert sum(each == "failed" for each in outcome.values()) == 2
    marks = {(item, model): each for item, model, each in _triples(table, "mark")}
    assert marks["s2", "echo"] is False
    assert marks["s1", "failing"] is True
    said = " ".join(table.warnings)
    assert "1 of 10 rows counts as failed: promptfoo marks it as an error" in said
    assert "1 of 10 rows counts as failed: there is no reply" in said


def test_a_test_without_assertions_always_succeeds_and_so_has_no_mark() -> None:
    table = read(DATA / "structured.json")
    assert [mark for item, _, mark in _triples(table, "mark") if item == "s5"] == [None, None]
    assert any("2 of 10 rows have no assertions, and so no mark" in warning for warning in table.warnings)


def test_a_cached_reply_has_no_latency_and_objects_are_json() -> None:
    table = read(DATA / "structured.json")
    latency = {(item, model): each for item, model, each in _triples(table, "latency_ms")}
    assert latency["s1", "failing"] is None
    assert latency["s1", "echo"] is not None
    prediction = {(item, model): each for item, model, each in _triples(table, "prediction")}
    assert json.loads(prediction["s1", "failing"]) == {"triage": "urgent"}
    tokens = {(item, model): each for item, model, each in _triples(table, "input_tokens")}
    assert (tokens["s2", "failing"], tokens["s3", "failing"]) == (9, None)


def test_providers_that_only_their_configuration_tells_apart_stay_apart() -> None:
    table = read(DATA / "twins.jsonl")
    assert column(table, "model") == ["echo #1", "echo #2"]
    assert column(table, "repeat") == [1, 1]


def test_variables_and_metadata_keep_their_names_and_a_map_replaces_the_item() -> None:
    names = ("--map", "item=vars.id", "--cluster", "vars.patient", "--by", "vars.site")
    done = command("evaluate", DATA / "triage.jsonl", *names, "-m", "accuracy", "--resamples", 0, "--format", "json")
    assert done.code == 0, done.err
    found = {tuple(sorted(e["slice"].items())): (e["value"], e["clusters"]) for e in done.json["estimates"]}
    plain = (("model", "first"), ("strategy", "plain"))
    assert found[plain] == (pytest.approx(2 / 3), 2)
    assert found[(*plain, ("vars.site", "north"))] == (1.0, 1)
    table = read(DATA / "triage.jsonl", map={"item": "vars.id"})
    assert set(column(table, "item")) == {"t1", "t2", "t3"}
    assert column(table, "should_abstain").count(True) == 8
    assert set(column(table, "metadata.difficulty")) == {None, "hard"}


def test_a_scorer_is_the_metric_of_assertions_and_takes_the_place_of_success() -> None:
    table = read(DATA / "structured.json", scorer="triage")
    marked = [(item, mark) for item, _, mark in _triples(table, "mark") if mark is not None]
    assert marked == [("s1", True)] * 2 + [("s2", True)] * 2
    assert any("rows lack a metric of `scorer=`" in warning for warning in table.warnings)
    both = read(DATA / "structured.json", scorer=["triage", "wellformed"])
    assert set(column(both, "task")) == {"triage", "wellformed"}
    nested = {
        name: column(read(DATA / "twins.jsonl", scorer=name), "mark")[0] for name in ("either", "one", "two", "graded")
    }
    assert nested == {"either": True, "one": True, "two": False, "graded": True}
    with pytest.raises(UsageError, match="has no scorer 'wellfromed'; did you mean 'wellformed'"):
        read(DATA / "structured.json", scorer="wellfromed")


def test_rows_without_the_metric_that_was_asked_for_stay_and_failed_ones_stay_failed(tmp_path: Path) -> None:
    bare = {"namedScores": {}, "gradingResult": None}
    other = {"testCase": {"vars": {}, "assert": [{"type": "equals", "value": "a"}]}, **bare}
    error = {"failureReason": 2, "response": None, "success": False, **other}
    table = records(
        tmp_path, row("q1"), row("q2", vars={"a": 2}, **other), row("q3", vars={"a": 3}, **error), scorer="exact"
    )
    assert list(zip(column(table, "outcome"), column(table, "mark"), strict=True)) == [
        ("answered", True),
        ("answered", None),
        ("failed", None),
    ]
    assert any("1 of 3 rows lacks a metric of `scorer=`" in warning for warning in table.warnings)
    several = read(DATA / "structured.json", scorer=["triage", "wellformed"])
    assert len(several) == 2 * len(read(DATA / "structured.json"))


def test_named_scores_are_columns() -> None:
    table = read(DATA / "twins.jsonl")
    assert column(table, "score.graded") == [0.4, 0.4]
    assert column(table, "score.either") == [0.5, 0.5]
    (estimate, _) = sy.evaluate(table, ["mean(score.graded)"], resamples=0)
    assert estimate.value == 0.4


def _triples(table: Records, name: str) -> list[tuple[Any, Any, Any]]:
    return list(zip(column(table, "item"), column(table, "model"), column(table, name), strict=True))


# -- what it may write -------------------------------------------------------------------------------------------------


def test_what_is_declined_is_told_by_phrases_by_the_tool_and_by_rules(tmp_path: Path) -> None:
    refused = row("q2", response={"output": "No.", "isRefusal": True})
    table = records(tmp_path, row(), row("q1", "I don't know."), refused, row("q3", ""))
    assert column(table, "outcome") == ["answered", "abstained", "abstained", "failed"]
    assert column(table, "prediction") == ["urgent", None, None, None]
    never = records(tmp_path, row(), row("q1", "I don't know."), refused, abstain_when="never")
    assert column(never, "outcome") == ["answered"] * 3


def test_the_target_is_the_expected_variable_or_the_one_value_that_must_be_equal(tmp_path: Path) -> None:
    def asserted(*assertions: dict[str, Any], **variables: Any) -> dict[str, Any]:
        return row(vars=variables, testCase={"vars": variables, "assert": list(assertions)}, gradingResult=None)

    equals = {"type": "equals", "value": "B"}
    table = records(
        tmp_path,
        asserted(equals, expected="A"),
        asserted(equals, a=1),
        asserted(equals, {"type": "equals", "value": "C"}, a=2),
        asserted({"type": "equals", "value": "{{ due }}"}, due=3),
        asserted({"type": "equals", "value": "{{ due }} or so"}, due=4),
        asserted({"type": "contains", "value": "B"}, a=5),
        asserted({"type": "equals", "value": {"k": 1}}, a=6),
    )
    assert column(table, "target") == ["A", "B", None, "3", None, None, '{"k": 1}']


def test_the_rendered_value_of_an_assertion_is_the_target(tmp_path: Path) -> None:
    template = {"type": "equals", "value": "{{a}} {{b}}"}
    graded = {
        "componentResults": [{"pass": True, "assertion": template, "metadata": {"renderedAssertionValue": "x y"}}]
    }
    known = {"vars": {"a": "x", "b": "y"}, "testCase": {"vars": {"a": "x", "b": "y"}, "assert": [template]}}
    assert column(records(tmp_path, row(gradingResult=graded, **known)), "target") == ["x y"]


def test_prompts_of_one_label_and_providers_of_one_label_stay_apart(tmp_path: Path) -> None:
    table = records(
        tmp_path,
        row(),
        row(promptIdx=1, promptId="9999999912"),
        row(promptIdx=2, provider={"id": "other", "label": "first"}),
    )
    assert column(table, "strategy") == ["plain (abcdef01)", "plain (99999999)", "plain (abcdef01)"]
    assert column(table, "model") == ["first (echo)", "first (echo)", "first (other)"]
    assert column(table, "repeat") == [1, 1, 1]


def test_a_prompt_without_a_name_is_not_shown(tmp_path: Path) -> None:
    long = {"label": f"{SECRET} " * 20}
    lined = {"label": f"{SECRET}\nline"}
    table = records(tmp_path, row(prompt=long), row(prompt=lined, promptId="12345678aa", promptIdx=1))
    assert column(table, "strategy") == ["prompt abcdef01", "prompt 12345678"]


def test_tests_that_share_an_id_and_differ_are_said(tmp_path: Path) -> None:
    first, second = row("q1"), row("q2")
    first["testCase"] |= {"metadata": {"id": 7}}
    second["testCase"] |= {"metadata": {"id": 7}}
    table = records(tmp_path, first, second)
    assert keys(table) == [("7", 1, "plain", "first"), ("7", 2, "plain", "first")]
    assert any("1 item stands for tests that differ, which count as repeats" in warning for warning in table.warnings)
    assert not any("differ" in warning for warning in records(tmp_path, row(), row()).warnings)


def test_fewer_rows_than_the_log_counts_are_an_excerpt(tmp_path: Path) -> None:
    stats = {"successes": 3, "failures": 1, "errors": 0}
    table = read(written(tmp_path, document([row(), row("q2", "routine")], stats=stats)))
    assert table.sources[0].excerpt == "2 of 4 rows that the log counts"
    assert any("states successes = 3, its rows give 1" in warning for warning in table.warnings)


def test_counts_that_the_rows_do_not_give_are_shown(tmp_path: Path) -> None:
    prompts = [{"metrics": {"testPassCount": 2, "testFailCount": 0, "testErrorCount": 0, "score": 2.0}}]
    table = read(written(tmp_path, document([row(), row("q2", "routine")], prompts=prompts)))
    assert [warning.partition("states ")[2] for warning in table.warnings] == [
        "testPassCount = 2, its rows give 1",
        "testFailCount = 0, its rows give 1",
        "score = 2, its rows give 1",
    ]


def test_older_outputs_are_read(tmp_path: Path) -> None:
    old = {
        "prompt": {"raw": SECRET, "display": "plain"},
        "vars": {"question": SECRET, "expected": "urgent"},
        "response": {"output": "urgent"},
        "success": True,
        "score": 1,
        "provider": "echo",
        "gradingResult": {"pass": True, "reason": "Assertion passed"},
    }
    broken = {**old, "success": False, "response": None, "error": SECRET, "gradingResult": None}
    wrong = {**old, "success": False, "response": {"output": "routine"}, "error": "Expected it to be equal"}
    for content in (
        {"results": [old, broken, wrong], "config": {}},
        {"results": {"version": 2, "results": [old, broken, wrong], "stats": {"successes": 1, "failures": 2}}},
    ):
        table = read(written(tmp_path, content))
        assert keys(table) == [(keys(table)[0][0], number, "plain", "echo") for number in (1, 2, 3)]
        assert column(table, "outcome") == ["answered", "failed", "answered"]
        assert column(table, "mark") == [True, None, False]
        assert not table.warnings[1:]


def test_a_torn_output_is_refused_and_salvaged(tmp_path: Path) -> None:
    for content, cut in ((document([row(), row("q2"), row("q3")]), -700), ([row(), row("q2"), row("q3")], -100)):
        path = written(tmp_path, content)
        path.write_bytes(path.read_bytes()[:cut])
        with pytest.raises(InputError, match="ends inside it; `salvage=True` keeps the 2 whole records"):
            read(path)
        table = read(path, salvage=True)
        assert len(table) == 2
        assert table.sources[0].torn


def test_an_output_cut_behind_its_rows_is_torn_too(tmp_path: Path) -> None:
    path = written(tmp_path, document([row(), row("q2")]))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="ends inside"):
        read(path)
    assert len(read(path, salvage=True)) == 2


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({"evalId": "e", "results": {"version": 3, "results": []}}, "the log holds no rows"),
        ({"evalId": "e", "results": {"version": 3}}, "a list is expected"),
        ({"evalId": "e", "results": {"results": [1]}}, "a list of objects is expected"),
        (document([row(), row(success=SECRET)]), r":2: success: not as promptfoo writes it: bool \| null is expected"),
        (document([row(vars=[SECRET])]), r":1: vars: not as promptfoo writes it"),
        (document([row(namedScores={"a": SECRET})]), r"not as promptfoo writes it"),
        ([row(), row(latencyMs=-1)], r":2: latency_ms"),
    ],
)
def test_what_is_not_as_it_should_be_is_refused_with_its_place(tmp_path: Path, content: Any, problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refused:
        read(written(tmp_path, content))
    assert SECRET not in str(refused.value)


@given(content=mutated(document([row(), row("q2", "routine"), row("q3", None)], stats={"successes": 1})))
def test_documents_with_anything_wrong_are_read_or_refused(tmp_path: Path, content: Any) -> None:
    _survives(tmp_path, json.dumps(content), "run.json")


@pytest.mark.parametrize("field", ["vars", "response", "testCase", "metadata"])
def test_what_is_nested_too_deeply_is_read_or_refused(tmp_path: Path, field: str) -> None:
    deep = document([row(**{field: {"output": "DEEP", "metadata": {"a": "DEEP"}, "a": "DEEP"}})])
    _survives(tmp_path, json.dumps(deep).replace('"DEEP"', DEEP), "run.json")


@given(content=mutated([row(), row("q2", "routine"), row("q3", {"a": [1]})]))
def test_lines_with_anything_wrong_are_read_or_refused(tmp_path: Path, content: Any) -> None:
    text = "".join(f"{json.dumps(each)}\n" for each in content) if isinstance(content, list) else json.dumps(content)
    _survives(tmp_path, text, "run.jsonl")


def _survives(folder: Path, text: str, name: str) -> None:
    (folder / name).write_text(text)
    for options in ({}, {"scorer": "exact", "salvage": True}):
        refusal = ""
        try:
            read(folder / name, format="promptfoo", **options)
        except SteelyardError as refused:
            refusal = str(refused)
        assert SECRET not in refusal


def test_a_map_that_names_a_column_as_it_is_changes_nothing() -> None:
    table = read(DATA / "triage.json", map={"item": "item", "model": "strategy", "strategy": "model"})
    assert set(column(table, "model")) == {"plain", "shouted"}
    assert len(set(column(table, "item"))) == 1


@pytest.mark.parametrize(
    "content",
    [
        {"results": {"version": 2, "scores": [{"vars": 1}]}},
        {"results": [{"vars": {"a": 1}, "id": 1}]},
        {"results": {"mmlu": {"acc": 0.5}}, "config": {}},
        {"vars": {"a": 1}, "provider": "x", "success": True},
    ],
)
def test_other_documents_are_not_taken_for_its_own(content: Any) -> None:
    assert sniff(Head(name="a.json", data=json.dumps(content).encode())) == "no"
