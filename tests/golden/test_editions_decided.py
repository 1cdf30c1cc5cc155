"""Gates, attempts and pointers of earlier editions."""

from __future__ import annotations

import json
from pathlib import Path

from steelyard.metrics.definition import metric_of
from steelyard.records.schema import CELL
from steelyard.runs.index import Index, RunEntry
from steelyard.runs.layout import Scope, scopes
from steelyard.runs.pointers import PINNED, Pointer, Pointers
from steelyard.runs.saved import SavedRun
from tests.support.commands import command
from tests.support.editions import VERDICTS, Edition, Pair, comparable, ok, scope_options, stored_values


def rules(base: SavedRun, new: SavedRun) -> list[str]:
    """A rule about the delta and one about the value, for a few metrics that both kept and that have a direction."""
    found: list[str] = []
    whole = any(not set(kept.slice) & set(CELL) for kept in new.kept)
    for name in comparable(base, new):
        better = metric_of(name).better
        values = [value for (metric, _), value in stored_values(new).items() if metric == name and value is not None]
        if (
            better not in ("higher", "lower")
            or not values
            or ("perturbation" in new.kept[0].slice and name != "accuracy")
        ):
            continue
        low, relation, margin = ("low", ">=", -0.05) if better == "higher" else ("high", "<=", 0.05)
        each = "" if whole else " for each cell"
        found += [f"{low}(delta({name})) {relation} {margin}{each}", f"{name} {relation} {values[0]}{each}"]
    return found[:4]


def test_every_pair_can_be_gated(pairs: list[Pair], copy: Path) -> None:
    for one, two in pairs:
        asked = [word for rule in rules(SavedRun.at(one.folder), SavedRun.at(two.folder)) for word in ("--rule", rule)]
        assert asked, (one.path, two.path)
        pair = ("--run", two.run_id, "--baseline", one.run_id, *scope_options(two))
        done = command("gate", *pair, *asked, "--resamples", 200, "--format", "json", root=copy)
        assert done.code in VERDICTS.values(), (one.path, two.path, done.err)
        assert VERDICTS[done.json["verdict"]] == done.code
        assert {rule["verdict"] for rule in done.json["rules"]} <= set(VERDICTS)


def test_attempts_of_then_are_counted_on(copy: Path) -> None:
    """Looking again is looking again, whichever edition looked first."""
    most = 0
    for path in sorted(copy.rglob("attempts.json")):
        attempts = json.loads(path.read_text())["Attempts"]
        last = attempts[-1]
        before = sum((a["Baseline"], a["Data"]) == (last["Baseline"], last["Data"]) for a in attempts)
        asked = [word for rule in last["Rules"] for word in ("--rule", rule)]
        pair = ("--run", last["RunId"], "--baseline", last["Baseline"])
        tenant = path.parents[1].name if path.parents[2].name == "tenants" else "-"
        done = command("gate", *pair, *asked, "--tenant", tenant, "--format", "json", root=copy)
        assert done.code in VERDICTS.values(), done.err
        assert done.json["attempt"] == before + 1
        assert json.loads(path.read_text())["Attempts"][:-1] == attempts
        most = max(most, before)
    assert most > 1


def test_gate_documents_of_then_still_read(edition: Edition) -> None:
    paths = sorted(edition.store.rglob("acceptance_gate.json"))
    documents = [json.loads(path.read_text()) for path in paths]
    assert {document["verdict"] for document in documents} == set(VERDICTS)
    for document in documents:
        assert document["schema_version"] == "1"
        assert document["passed"] == (document["verdict"] == "pass")
        assert document["rules"]
        for rule in document["rules"]:
            assert {"rule", "kind", "slice", "value", "low", "high", "threshold", "passed", "verdict"} <= set(rule)


def pointers_of(root: Path) -> list[tuple[Scope, Pointer]]:
    return [(scope, pointer) for scope in scopes(root) for pointer in Pointers(scope).all()]


def check_line(pointer: Pointer) -> None:
    """A history is one line: numbered from 1, and each step starts from where the last one ended."""
    assert [step["Seq"] for step in pointer.history] == list(range(1, len(pointer.history) + 1))
    ends = [None, *(step["RunId"] for step in pointer.history)]
    assert [step["PreviousRunId"] for step in pointer.history] == ends[:-1]
    assert pointer.run_id == ends[-1]


def test_pointers_point_where_they_did(edition: Edition, root: Path) -> None:
    whose = dict.fromkeys((scope.domain, scope.tenant) for scope in scopes(root))
    asked = [("--domain", domain, "--tenant", tenant or "-") for domain, tenant in whose]
    now = [found for options in asked for found in ok("runs", "active", "--all", *options, root=root)["pointers"]]
    then = edition.shown["pointers"]
    assert len(now) == len(then)
    for one, two in zip(now, then, strict=True):
        assert {key: one[key] for key in two if key != "digest"} == {k: v for k, v in two.items() if k != "digest"}
    found = pointers_of(root)
    for scope, pointer in found:
        check_line(pointer)
        opened = Pointers(scope).opened(pointer.stack[-1])
        assert opened.run.run_id == pointer.run_id
    assert {step["Action"] for _, pointer in found for step in pointer.history} == {"promote", "rollback"}


def test_promoting_and_rolling_back_go_on_where_the_history_ended(copy: Path) -> None:
    tried = 0
    for scope, pointer in pointers_of(copy):
        if pointer.profile == PINNED:
            continue
        with Index(copy, tenant=scope.tenant, domain=scope.domain) as index:
            others = [
                run.run_id
                for run in index.runs()
                if run.complete and pointer.metric in run.metrics and run.run_id != pointer.run_id
            ]
        named = ("--metric", pointer.metric, "--profile", pointer.profile, "--tenant", scope.tenant or "-")
        promoted = ok("runs", "promote", others[0], *named, "--reason", "a later edition", root=copy)
        assert promoted["run_id"] == others[0]
        back = Pointers(scope).rollback(pointer.metric, pointer.profile)
        assert back.run_id == pointer.run_id
        assert back.history[: len(pointer.history)] == pointer.history
        assert [step["Action"] for step in back.history[len(pointer.history) :]] == ["promote", "rollback"]
        check_line(back)
        tried += 1
    assert tried > 2


def test_pinned_runs_can_be_gated_against(listed: list[RunEntry], copy: Path) -> None:
    tried = 0
    for scope, pointer in pointers_of(copy):
        if pointer.profile != PINNED:
            continue
        base = Pointers(scope).opened(pointer.stack[-1])
        for run in listed:
            new = SavedRun.at(run.folder)
            if (run.domain, run.tenant) != (scope.domain, scope.tenant) or new.run.run_id == base.run.run_id:
                continue
            if new.data != base.data or not (about := rules(base, new)):
                continue
            asked = ("--run", run.run_id, "--baseline", f"pinned:{pointer.metric}", "--rule", about[0])
            done = command("gate", *asked, *scope_options(run), "--resamples", 200, "--format", "json", root=copy)
            assert done.code in VERDICTS.values(), done.err
            assert done.json["baseline"] == base.run.run_id
            tried += 1
            break
    assert tried > 1


def test_an_incomplete_run_is_still_not_promoted(listed: list[RunEntry], copy: Path) -> None:
    torn = [run for run in listed if not run.complete]
    assert torn
    for run in torn:
        asked = ("--metric", next(iter(run.metrics)), *scope_options(run))
        done = command("runs", "promote", run.run_id, *asked, root=copy)
        assert done.code == 5
        assert "not complete" in done.err
