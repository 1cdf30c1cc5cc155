"""What only the second edition keeps: verdicts with numbers, models that were asked, suites, rankings, both sides.

Its rules of deciding and of uncertainty are still those of today, so gates give the verdicts that they gave then.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.metrics.definition import metrics
from steelyard.metrics.evidence.codec import kinds
from steelyard.runs.saved import SavedRun, compare_runs
from steelyard.uncertainty.settings import Settings
from tests.golden import plugin
from tests.golden.make_second_edition import GATES, SUITE, pair_of
from tests.support.commands import command
from tests.support.editions import DATA, EXACT, SECOND, VERDICTS, Edition, comparable, ok

LATER: set[str] = set()  # kinds of evidence that came after it: the store of the next edition is to hold them
RUNS = "results/evaluation/runs"
FEW = ("--resamples", 200)


@pytest.fixture(scope="module")
def edition() -> Edition:
    return SECOND


def test_it_holds_every_kind_of_evidence_and_every_metric() -> None:
    known = {name for name in kinds if kinds[name].type.__module__.startswith(("steelyard.", "tests.golden."))}
    assert known | {"Kept"} == set(SECOND.on_disk) | LATER
    its_own = {plugin.agreement.name, plugin.agreement_held.name, plugin.typical_error.name}
    assert set(SECOND.shown["metrics"]) <= {*metrics} | its_own  # none has gone since


@pytest.mark.parametrize("name", GATES)
def test_gates_give_the_verdicts_of_then(name: str, copy: Path) -> None:
    _, pair, rules = GATES[name]
    base, new = pair_of(pair)
    then = json.loads((copy / "gates" / name / "acceptance_gate.json").read_text())
    asked = [word for rule in rules for word in ("--rule", rule)]
    done = command("gate", "--run", new, "--baseline", base, *asked, "--format", "json", root=copy)
    assert (done.json["verdict"], done.code) == (then["verdict"], VERDICTS[then["verdict"]])
    for one, two in zip(done.json["rules"], then["rules"], strict=True):
        for key in ("rule", "kind", "slice", "verdict", "passed", "reason", "n", "clusters", "left_out", "notes"):
            assert one[key] == two[key], (one["rule"], key)
        for key in ("value", "low", "high", "threshold"):
            assert one[key] == pytest.approx(two[key], abs=EXACT), (one["rule"], key)


def check_same(then: SavedRun, now: SavedRun) -> None:
    """Nothing differs between a run of then and the same one of today."""
    assert now.data == then.data
    names = comparable(then, now)
    assert names == comparable(then)
    found = list(compare_runs(then, now, names, settings=Settings(resamples=100)))
    assert {delta.metric for delta in found} == set(names)
    assert all(delta.delta == pytest.approx(0, abs=EXACT) for delta in found if delta.base is not None)
    assert any(delta.base is not None for delta in found)


def asked_run(copy: Path) -> Path:
    (folder,) = (copy / RUNS / "run").iterdir()
    return folder


def test_replies_of_then_are_read_again(copy: Path) -> None:
    then = asked_run(copy)
    done = command("reparse", then.name, *FEW, "--format", "json", root=copy)
    assert done.code in VERDICTS.values(), done.err
    (new,) = set((copy / RUNS / "run").iterdir()) - {then}
    check_same(SavedRun.at(then), SavedRun.at(new))


def test_models_that_are_asked_today_answer_as_then(copy: Path) -> None:
    then = asked_run(copy)
    done = command("run", "examples/ckd/spec.yaml", "--limit", 12, *FEW, "--format", "json", root=copy)
    assert done.code in VERDICTS.values(), done.err
    (new,) = set((copy / RUNS / "run").iterdir()) - {then}
    check_same(SavedRun.at(then), SavedRun.at(new))


def test_a_suite_of_today_pairs_with_one_of_then(copy: Path) -> None:
    kept = ("--save", "--workflow", "Ward", "--run-id", "again")
    ok("benchmark", SUITE / "suite.yaml", SUITE / "birch", *kept, *FEW, root=copy)
    check_same(SavedRun.at(copy / RUNS / "Ward/ward-birch"), SavedRun.at(copy / RUNS / "Ward/again"))


def test_both_sides_that_are_kept_today_pair_with_those_of_then(copy: Path) -> None:
    files = [DATA / f"{name}.txt" for name in ("qrels", "first", "second")]
    kept = ("--save", "--run-id", "again")
    ok("rank", *files, "-m", "ndcg@10,mrr,map,bpref", *kept, "--workflow", "Ranked", *FEW, root=copy)
    tables = [DATA / f"screening-{side}.jsonl" for side in ("base", "new")]
    asked = ("-m", "accuracy,sensitivity,auroc", "--task-file", DATA / "screening.task.yaml")
    ok("compare", *tables, *asked, *kept, "--workflow", "Compared", *FEW, root=copy)
    for workflow, name in (("Ranked", "ranked"), ("Compared", "compared")):
        for suffix in ("-base", ""):
            folder = copy / RUNS / workflow
            check_same(SavedRun.at(folder / f"{name}{suffix}"), SavedRun.at(folder / f"again{suffix}"))
