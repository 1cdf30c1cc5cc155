"""A gate is told all that `evaluate` is told, and no confirming rule passes on rows that are not what was asked."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.decide.allowing import allowed
from steelyard.errors import UsageError
from steelyard.ground.digests import digest_of
from steelyard.ground.json import dumps
from steelyard.pytest_plugin import check
from steelyard.records.cautions import KINDS, USUAL
from steelyard.study.warnings import unlike
from tests.support.answers import lines
from tests.support.commands import Done, command
from tests.support.inspect_logs import archive, members, sample, written
from tests.support.xlsx import FORMULA, workbook

N = 200
RULE = "low(accuracy) >= 0.4"
FEW = ("--resamples", 200)
calamine = pytest.mark.skipif(
    importlib.util.find_spec("python_calamine") is None, reason="python-calamine is not installed"
)


def answers(n: int = N, *, wrong: int = 0, **more: Any) -> list[dict[str, Any]]:
    return [{"item": i, "target": "yes", "prediction": "no" if i < wrong else "yes"} | more for i in range(n)]


def kept(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text(lines(rows))
    return path


def sheet(rows: list[dict[str, Any]]) -> list[list[Any]]:
    return [list(rows[0]), *(list(row.values()) for row in rows)]


def gated(path: Path | str, *more: Any, root: Path, rule: str = RULE) -> Done:
    return command("gate", path, "--rule", rule, *FEW, *more, root=root, cwd=root)


def hidden_first(path: Path) -> Path:
    """A workbook whose hidden first sheet holds only the right rows."""
    content = workbook(sheet(answers(100)), sheet(answers(N, wrong=100)), hidden=(1,))
    path = path / "answers.xlsx"
    path.write_bytes(content)
    return path


def formulas(path: Path) -> Path:
    """A workbook in which the predictions of 100 of 200 rows are formulas without stored values."""
    rows = sheet(answers())
    for row in rows[1:101]:
        row[2] = FORMULA
    path = path / "answers.xlsx"
    path.write_bytes(workbook(rows))
    return path


def states_less(path: Path) -> Path:
    """A log that states an accuracy of 0.8, while its rows give 1."""
    return written(path, [sample(i) for i in range(N)], metrics={"accuracy": {"value": 0.8}})


def limited(path: Path) -> Path:
    """A log limited to the first 50 of 2,376 samples."""
    samples = [sample(i) for i in range(50)]
    run = json.loads(members(samples)["header.json"])["eval"]
    run["dataset"] = {"samples": 2_376}
    run["config"] = {"epochs": 1, "limit": 50}
    return written(path, samples, eval=run)


def relisted(path: Path) -> Path:
    """An archive whose own list has ten samples that are not there."""
    listed = [{"id": i, "epoch": 1, "scores": {"match": {"value": "C"}}} for i in range(N + 10)]
    files = members([sample(i) for i in range(N)]) | {"summaries.json": json.dumps(listed).encode()}
    (path / "run.eval").write_bytes(archive(files))
    return path / "run.eval"


def rescored(path: Path) -> Path:
    """An archive whose own list says of ten samples that they are wrong."""
    listed = [{"id": i, "epoch": 1, "scores": {"match": {"value": "I" if i < 10 else "C"}}} for i in range(N)]
    files = members([sample(i) for i in range(N)]) | {"summaries.json": json.dumps(listed).encode()}
    (path / "run.eval").write_bytes(archive(files))
    return path / "run.eval"


def marked(path: Path) -> Path:
    """Three of 200 marks contradict the labels."""
    rows = [row | {"mark": int(row["prediction"] == "yes")} for row in answers(wrong=3)]
    return kept(path / "a.jsonl", [row | {"mark": 1} if row["item"] < 3 else row for row in rows] + other_label())


def other_label() -> list[dict[str, Any]]:
    return [{"item": N, "target": "no", "prediction": "no", "mark": 1}]


def repeated(path: Path) -> Path:
    """An item was asked five times, the others once."""
    rows = [row | {"repeat": 1} for row in answers()]
    return kept(path / "a.jsonl", [*rows, *(rows[0] | {"repeat": n} for n in range(2, 6))])


def failing(path: Path) -> Path:
    """Fifteen of 200 rows failed."""
    rows = [row | {"outcome": "failed", "prediction": None} if row["item"] < 15 else row for row in answers()]
    return kept(path / "a.jsonl", rows)


# each passed with exit 0 and no note
CASES = {
    "sheets": (lambda path: several_sheets(path), "the workbook has 2 sheets"),
    "cells": (formulas, "100 cells hold formulas without a stored value"),
    "contradiction": (states_less, "the log states match/accuracy = 0.8, its rows give 1"),
    "excerpt": (limited, "the run was limited to a part of its dataset (limit 50): 50 of 2,376 samples"),
    "contradiction: listed": (relisted, "10 of its own list of samples are not in the archive"),
    "contradiction: rescored": (rescored, "10 samples have another score than its own list of samples says"),
    "marks": (marked, "3 of 201 marks contradict the labels next to them"),
    "repeats": (repeated, "199 of 200 items were asked less often than others: 1 time and not 5"),
    "failed": (failing, "7.5% of the rows failed"),
}


def several_sheets(path: Path) -> Path:
    path = path / "answers.xlsx"
    path.write_bytes(workbook(sheet(answers(100)), sheet(answers(N, wrong=100))))
    return path


@calamine
@pytest.mark.parametrize("case", CASES)
def test_rows_that_are_not_what_was_asked_pass_no_confirming_rule(tmp_path: Path, case: str) -> None:
    kind, (make, said) = case.partition(":")[0], CASES[case]
    path = make(tmp_path)
    documents = ("--junit", tmp_path / "j.xml", "--summary", tmp_path / "s.md", "--output", tmp_path / "a.json")
    refused = gated(path.name, *documents, root=tmp_path)
    assert refused.code == 6, refused.out + refused.err
    reason = f"no rule passes on such rows: .*{said} (--allow {kind} accepts it)"
    assert f"(--allow {kind} accepts it)" in " ".join(refused.out.split())
    document = json.loads((tmp_path / "a.json").read_text())
    assert said in document["rules"][0]["reason"], reason
    for file in ("j.xml", "s.md", "a.json"):
        assert said in (tmp_path / file).read_text().replace("\\|", "|"), file
    # from a kept run, too: what was said is stored, and said again
    assert command("evaluate", path, "-m", "accuracy", *FEW, "--save", "--run-id", "k", root=tmp_path).code == 0
    again = command("gate", "--run", "k", "--rule", RULE, root=tmp_path)
    assert (again.code, said in " ".join(again.out.split())) == (6, True), again.out
    assert said in command("runs", "show", "k", "--format", "json", root=tmp_path).out or kind == "failed"
    # a point rule says what it is: a value, with what must be said next to it
    point = gated(path.name, root=tmp_path, rule="accuracy >= 0.5")
    assert (point.code, said in " ".join(point.out.split()) or kind == "failed") == (0, True), point.out
    accepted = gated(path.name, "--allow", kind, "--format", "json", root=tmp_path)
    assert (accepted.code, accepted.json["allow"]) == (0, {kind: 1.0}), accepted.out
    assert f"allowed: {kind}" in accepted.json["notes"]
    with pytest.raises(pytest.fail.Exception, match="no rule passes on such rows"):
        check(path, rules=RULE, resamples=200, root=tmp_path)
    assert check(path, rules=RULE, resamples=200, root=tmp_path, allow=kind).passed
    (tmp_path / "rules.yaml").write_text(f"rules: ['{RULE}']\nallow: [{kind}]\n")
    assert command("gate", path, "--rules", tmp_path / "rules.yaml", *FEW, root=tmp_path).code == 0


@calamine
def test_a_hidden_sheet_is_not_read_as_the_first(tmp_path: Path) -> None:
    path = hidden_first(tmp_path)
    records = sy.read(path)
    assert len(records) == N  # the only visible one
    assert "2 sheets, 1 hidden one among them; the only visible one was read" in records.warnings[0]
    assert gated(path.name, root=tmp_path).code == 6
    assert gated(path.name, "--sheet", "s2", root=tmp_path, rule="low(accuracy) >= 0.4").code == 0
    assert gated(path.name, "--sheet", "s1", root=tmp_path).code == 0
    wrong = gated(path.name, "--sheet", "s3", root=tmp_path)
    assert (wrong.code, "has no sheet 's3'; there are: 's1', 's2'" in wrong.err) == (2, True)
    path.write_bytes(workbook(*(sheet(answers(n)) for n in (5, 6, 7)), hidden=(1,)))
    with pytest.raises(UsageError, match="the first of its 3 sheets is hidden; name the one to read with `sheet=`"):
        sy.read(path)


def test_shares_say_how_much_is_accepted(tmp_path: Path) -> None:
    path = failing(tmp_path)
    assert gated(path.name, "--allow", "failed=0.08", root=tmp_path).code == 0
    assert gated(path.name, "--allow", "failed=0.07", root=tmp_path).code == 6
    rules = ("--rule", RULE, "--rule", "failure_rate <= 0.1")
    assert command("gate", path, *rules, *FEW, root=tmp_path).code == 0  # somebody watches them
    marks = marked(tmp_path)
    assert gated(marks.name, "--allow", "marks=0.02", root=tmp_path).code == 0


def test_kinds_are_a_closed_list() -> None:
    assert set(USUAL) < set(KINDS)
    assert allowed([f"{kind}=0.5" for kind in KINDS]) == dict.fromkeys(KINDS, 0.5)
    for asked, problem in {
        "excerpts": "`allow=excerpts` is no kind of caution; did you mean 'excerpt'",
        "": "there are: failed, missing",
        "failed=2": "`allow=failed=…` takes a share of the rows, from 0 to 1, not '2'",
        "failed=nan": "takes a share",
        "failed=": "takes a share",
    }.items():
        with pytest.raises(UsageError, match=problem.replace("?", r"\?")):
            allowed(asked)
    with pytest.raises(UsageError, match="names 'failed' twice"):
        allowed(["failed", "failed=0.1"])


def test_conditions_travel_and_differ(tmp_path: Path) -> None:
    rows = [row | {"age": row["item"], "site": "ab"[row["item"] % 2]} for row in answers(wrong=40)]
    kept(tmp_path / "old.jsonl", rows)
    kept(tmp_path / "new.jsonl", rows)
    young = ("--where", "age<120")
    save = ("-m", "accuracy", *FEW, "--save", "--run-id")
    assert command("evaluate", tmp_path / "old.jsonl", *save, "old", *young, root=tmp_path).code == 0
    assert command("evaluate", tmp_path / "new.jsonl", *save, "new", "--where", "age<=119", root=tmp_path).code == 0
    shown = command("runs", "show", "new", "--format", "json", root=tmp_path).json
    assert shown["Reading"] == {"of": 200, "where": ["age<=119"], "rows": 120}
    assert "120 of 200 rows: age<=119" in command("runs", "show", "new", root=tmp_path).out
    assert "120 of 200 rows: age<=119" in command("runs", "list", "--wide", root=tmp_path).out
    against = ("gate", "--run", "new", "--baseline", "old")
    for rule, code in {"low(delta(accuracy)) >= -0.5": 6, "delta(accuracy) >= -0.5": 0}.items():
        unlike = command(*against, "--rule", rule, root=tmp_path)
        assert unlike.code == code, unlike.out
        assert "the runs were not read alike: where (age<120; age<=119)" in " ".join(unlike.out.split())
        assert command(*against, "--rule", rule, "--allow", "conditions", root=tmp_path).code == 0
    compared = command("runs", "compare", "-m", "accuracy", "--against", "old", root=tmp_path)
    assert "the runs were not read alike" in " ".join((compared.out + compared.err).split())
    files = (tmp_path / "old.jsonl", tmp_path / "new.jsonl", "-m", "accuracy", *FEW)
    assert "not read alike" not in command("compare", *files, *young, root=tmp_path).out


def test_a_part_of_one_table_is_no_condition(tmp_path: Path) -> None:
    rows = [row | {"model": model} for model in ("a", "b") for row in answers(wrong=20)]
    path = kept(tmp_path / "both.jsonl", rows)
    rule = ("--rule", "low(delta(accuracy)) >= -0.1", *FEW)
    assert command("gate", path, "--versus", "model=a,b", *rule, root=tmp_path).code == 0
    one, two = (sy.read(path, where=f"model={model}") for model in "ab")
    found = sy.compare(one, two, ["accuracy"], resamples=100)
    assert (found.cautions, [w for w in found.warnings if "alike" in w]) == ((), [])
    older = sy.compare(one, sy.read(path, where=["model=b", "item>=0"]), ["accuracy"], resamples=100)
    assert [caution.kind for caution in older.cautions] == ["conditions"]


def test_what_is_told_is_read_back(tmp_path: Path) -> None:
    path = failing(tmp_path)
    table = sy.read(path, where="item>=5", labels="fold", abstain=["no"])
    found = sy.evaluate(table, ["accuracy"], resamples=100)
    again = sy.load(found.save(tmp_path / "evaluation.json"))
    assert again.cautions == found.cautions
    assert again.reading == found.reading == {
        "labels": "fold", "abstain": ["no"], "of": N, "where": ["item>=5"],
    }  # fmt: skip


def test_a_run_that_was_kept_before_readings_were_is_noted_and_not_barred(tmp_path: Path) -> None:
    for name, where in (("old", ()), ("new", ("--where", "item>=0"))):
        kept(tmp_path / f"{name}.jsonl", answers(wrong=20))
        asked = ("-m", "accuracy", *FEW, "--save", "--run-id", name, *where)
        assert command("evaluate", tmp_path / f"{name}.jsonl", *asked, root=tmp_path).code == 0
    rule = ("--rule", "low(delta(accuracy)) >= -0.5", "--format", "json")
    barred = command("gate", "new", "old", *rule, root=tmp_path)
    assert (barred.code, "not read alike" in barred.json["rules"][0]["reason"]) == (6, True)
    folder = tmp_path / "results/evaluation/runs/evaluate/old"
    document = json.loads((folder / "evaluation.json").read_text())
    del document["reading"]  # as 0.10.0 wrote it
    (folder / "evaluation.json").write_text(dumps(document))
    run = json.loads((folder / "run.json").read_text())
    run["Files"]["evaluation.json"] = hashlib.sha256((folder / "evaluation.json").read_bytes()).hexdigest()
    del run["Digest"]
    (folder / "run.json").write_text(dumps({**run, "Digest": digest_of(run)}))
    noted = command("gate", "new", "old", *rule, root=tmp_path)
    assert noted.code == 0, noted.out
    assert any("run old: how its rows were chosen and read was not recorded" in note for note in noted.json["notes"])


def test_labels_of_several_kinds_are_compared_whatever_their_order() -> None:
    assert unlike({"task_labels": [1, "a"]}, {"task_labels": ["a", 1]}) == ()
    assert [caution.kind for caution in unlike({"task_labels": [1, "a"]}, {"task_labels": [1]})] == ["conditions"]
