"""A store that the first edition wrote, read by this one: what somebody kept then must not be lost now.

`first_edition` was written once, by version 0.1.0, and stays as it is; `make_first_edition.py` says how.
It holds every kind of evidence, label, cluster and file that the first edition could keep, and
`first_edition.json` what that edition showed of it. So these tests ask, whatever the program has become:

* Is every run still listed, verified and shown, with value, interval and method *as stored*? A number that was
  published is not computed anew.
* Can every two runs on the same questions still be compared and gated, from the evidence alone? The difference of
  two stored values is a fact and must come out. Intervals and p-values of deltas follow the rules of today, so nothing
  is said of them here.
* Can a run that is saved today be compared with one of then? The tables are in `data`, evaluated anew.
* Do pointers, attempts, trainings, per-query files, segments, calibrators and gate documents still read?
* Does reading leave everything as it was?

Runs are found in the store, not listed here. If a test fails, the program has to learn to read the old form; the store
must not be made again.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import shutil
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.confidence.calibrators.wire import read_calibrator
from steelyard.errors import StorageError
from steelyard.ground.digests import digest_of
from steelyard.ground.json import plain
from steelyard.metrics.definition import metric_of
from steelyard.records.labels import value_name
from steelyard.records.readers import read
from steelyard.records.schema import CELL
from steelyard.records.table import Records
from steelyard.report.formats import text
from steelyard.report.runs import run_report
from steelyard.retrieval.per_query import read_per_query
from steelyard.retrieval.shifts.kept import trainings
from steelyard.retrieval.shifts.named import named_shift
from steelyard.retrieval.shifts.segments_wire import read_segments
from steelyard.retrieval.shifts.shift import applied
from steelyard.runs.index import Index, Listed
from steelyard.runs.layout import Scope, scopes
from steelyard.runs.pointers import PINNED, Pointer, Pointers
from steelyard.runs.run_json import run_document
from steelyard.runs.saved import Clock, Opened, compare_runs, save
from steelyard.study.comparison import compare_kept
from steelyard.study.evaluation import evaluate
from steelyard.uncertainty.number import Delta
from tests.support.commands import Done, command

HERE = Path(__file__).parent
STORE, DATA = HERE / "first_edition", HERE / "data"
SHOWN: Any = json.loads((HERE / "first_edition.json").read_text())
RUNS = sorted(path.parent.relative_to(STORE).as_posix() for path in STORE.rglob("run.json"))
VERDICTS = {"pass": 0, "fail": 1, "inconclusive": 6}
WRITTEN = (
    "9036ffb84d352511ebb529e528a8bfec0b7e4f4f06fc5a889278d59ead16f964"  # all files, as the first edition left them
)
EXACT = 1e-9
Pair = tuple[Listed, Listed]
Slice = frozenset[tuple[str, str]]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the store that tests only read."""
    return Path(shutil.copytree(STORE, tmp_path_factory.mktemp("golden") / "store"))


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the store that a test may write to."""
    return Path(shutil.copytree(STORE, tmp_path / "store"))


@pytest.fixture(scope="module")
def listed(root: Path) -> list[Listed]:
    """Every run of the store."""
    with Index(root, all_tenants=True) as index:
        assert index.problems() == []
        return index.runs()


@pytest.fixture(scope="module")
def pairs(listed: list[Listed]) -> list[Pair]:
    """Runs of one scope on the same questions in the same slices, each with the next one that was saved: base, new."""
    alike: dict[Any, list[Listed]] = defaultdict(list)
    for run in sorted(listed, key=lambda run: run.started_at):
        opened = Opened.at(run.folder)
        slices = frozenset(frozenset(set(kept.slice) - {"model", "strategy"}) for kept in opened.kept)
        alike[run.domain, run.tenant, opened.data, slices].append(run)
    return [pair for runs in alike.values() for pair in pairwise(runs)]


def ok(*arguments: Any, root: Path) -> Any:
    """What a command says in JSON."""
    done = command(*arguments, "--format", "json", root=root)
    assert done.code == 0, (arguments, done.err)
    return done.json


def scope_options(run: Listed) -> list[str]:
    return ["--domain", run.domain, *(["--tenant", run.tenant] if run.tenant else [])]


def sliced(slice_: Any) -> Slice:
    """A slice to look up by; which model or strategy it was is what tells two runs apart."""
    return frozenset((name, value_name(value)) for name, value in slice_.items())


def stored_values(opened: Opened) -> dict[tuple[str, Slice], float | None]:
    """The values that a run has stored, by metric and slice."""
    return {(e["metric"], sliced(e["slice"])): e["value"] for e in opened.evaluation["estimates"]}


def value_in(values: dict[tuple[str, Slice], float | None], delta: Delta) -> float | None:
    """The stored value that one side of a delta should have: of its slice, or of the one model or strategy in it."""
    wanted = sliced(delta.slice)
    names = {name for name, _ in wanted}
    for (metric, slice_), value in values.items():
        rest = frozenset((name, v) for name, v in slice_ if name in names or name not in ("model", "strategy"))
        if metric == delta.metric and rest == wanted:
            return value
    raise AssertionError(f"{delta.metric} {dict(delta.slice)} is not among the stored estimates")


def comparable(*runs: Opened) -> list[str]:
    """The metrics whose evidence all of these kept, and that may be compared at all."""
    kept = [{name for part in run.kept for name in part.evidence} for run in runs]
    return sorted(name for name in set.intersection(*kept) if not metric_of(name).definition.no_delta)


def kept_deltas(base: Opened, new: Opened) -> Iterator[Delta]:
    """Every delta that the evidence of two runs can give; what altered questions tell is kept in altered cells only."""
    together: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in comparable(base, new):
        together[tuple(i for i, part in enumerate(new.kept) if name in part.evidence)].append(name)
    for names in together.values():
        parts = [[part for part in run.kept if names[0] in part.evidence] for run in (base, new)]
        yield from compare_kept(*parts, names, resamples=100)


def same_failures(base: Opened, new: Opened) -> bool:
    """Whether the same rows failed in both, so that no cluster leaves the comparison."""
    return sorted(kept.failed for kept in base.kept) == sorted(kept.failed for kept in new.kept)


def digests(folder: Path) -> dict[str, str]:
    """What every file holds, apart from the index, which is made anew at any time."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".index" not in path.parts]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


# -- the store itself --------------------------------------------------------------------------------------------------

# What stands in the headers of `evidence.npz`: names of classes and of their fields. They are a file format: whoever
# renames a class or a field has to teach the reader the old name, and to leave this table as it is.
ON_DISK = {
    "Kept": (
        "slice", "ids", "asked", "failed", "answered", "counts", "asked_rows", "answered_rows", "constants", "evidence",
    ),
    "Sums": ("names", "keys", "ids", "cells", "rows", "excluded", "is_score", "binary"),
    "SortedRows": ("score", "value", "cluster", "ends", "ids", "rows", "excluded", "reading"),
    "Rows": ("columns", "ids", "cluster", "rows", "excluded"),
    "Groups": ("names", "groups", "overall", "ungrouped"),
    "Parts": ("parts", "lost"),
    "Signed": ("gaps", "excluded"),
}  # fmt: skip
READINGS = {"SortedReading", "CurveReading"}
FORMS = {"new", "again", "kind", "fields", "type", "map", "tuple", "array", "objects", "bytes", "labels", "sparse"}


def nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Every object in a header of evidence, outermost first."""
    if isinstance(value, dict):
        yield value
    for inside in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from nodes(inside)


def header(path: Path) -> Any:
    """The JSON header of an evidence file, read without the library."""
    with np.load(path, allow_pickle=False) as arrays:
        return json.loads(arrays["header"].tobytes())


def test_the_store_is_as_the_first_edition_wrote_it() -> None:
    """Nobody makes it again, mends it or converts its line ends: then it would prove nothing."""
    whole = json.dumps(digests(STORE), sort_keys=True).encode()
    assert hashlib.sha256(whole).hexdigest() == WRITTEN


def test_the_store_holds_every_kind_of_evidence_under_the_names_of_the_first_edition() -> None:
    kinds: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    readings, forms = set(), set()
    for run in RUNS:
        found = header(STORE / run / "evidence.npz")
        assert found["version"] == 1
        for node in nodes(found["parts"]):
            if "kind" in node:
                kinds[node["kind"]].add(tuple(node["fields"]))
            if isinstance(node.get("type"), str):
                readings.add(node["type"])
            forms |= FORMS & set(node)
    assert kinds == {name: {fields} for name, fields in ON_DISK.items()}
    assert readings == READINGS
    assert forms == FORMS


def test_the_store_holds_what_it_is_for(listed: list[Listed]) -> None:
    """If this fails, the store was changed, not the program."""
    assert {run.path for run in listed} == set(RUNS) == set(SHOWN["runs"])
    assert {run.tenant for run in listed} > {None}
    assert len({run.domain for run in listed}) > 1
    opened = [Opened.at(run.folder) for run in listed]
    assert {run.records is None for run in opened} == {True, False}
    assert {run.run.complete for run in opened} == {True, False}
    parts = [kept for run in opened for kept in run.kept]
    assert {type(part) for kept in parts for id_ in kept.ids for part in id_} == {str, int}
    assert {outcome for kept in parts for outcome, count in kept.counts.items() if count} == {
        "answered", "abstained", "unparsed", "failed",
    }  # fmt: skip
    assert {"model", "perturbation", "group.site", "group.decade"} <= {name for kept in parts for name in kept.slice}
    assert not list(STORE.rglob(".index"))
    assert not list(STORE.rglob(".lock"))


# -- runs as they were stored ------------------------------------------------------------------------------------------


def test_every_run_is_listed_as_it_was(root: Path) -> None:
    found = ok("runs", "list", "--all-tenants", root=root)
    assert found["problems"] == []
    assert len(found["runs"]) == len(RUNS)
    for now, then in zip(found["runs"], SHOWN["list"], strict=True):
        assert {key: now[key] for key in then} == then


@pytest.mark.parametrize("path", RUNS)
def test_every_run_is_shown_as_it_was_stored(path: str, root: Path) -> None:
    then = SHOWN["runs"][path]
    opened = Opened.at(root / path)
    opened.verify()
    now = plain(run_document(opened.run))  # what `runs show` prints as JSON
    assert opened.run.run_id in text.render(run_report(opened))
    assert {key: now[key] for key in then["show"] if key != "Digest"} == {
        key: value for key, value in then["show"].items() if key != "Digest"
    }
    kept = [[e[name] for name in ("metric", "slice", "value", "interval", "method", "n")] for e in
            opened.evaluation["estimates"]]  # fmt: skip
    assert kept == then["estimates"]


# -- comparisons -------------------------------------------------------------------------------------------------------


def test_every_pair_compares_from_kept_evidence(pairs: list[Pair]) -> None:
    seen: set[str] = set()
    for one, two in pairs:
        base, new = Opened.at(one.folder), Opened.at(two.folder)
        found = list(kept_deltas(base, new))
        values = stored_values(base), stored_values(new)
        alike = same_failures(base, new)
        assert len(found), (one.path, two.path)
        for delta in found:
            where = one.run_id, two.run_id, delta.metric, dict(delta.slice)
            before, after = (value_in(side, delta) for side in values)
            if before is None or after is None:
                assert delta.delta is None or not alike, where
                continue
            assert delta.base is not None, where
            assert delta.new is not None, where
            assert delta.delta is not None, where
            assert math.isfinite(delta.delta), where
            assert delta.delta == pytest.approx(delta.new - delta.base, abs=EXACT), where
            if "missing" in delta.companions:  # what one run cannot count leaves both today; the stored values kept it
                assert "kept by an earlier edition" in delta.note, where
            elif alike or metric_of(delta.metric).population == "all":
                assert delta.delta == pytest.approx(after - before, abs=EXACT), where
                assert (delta.base, delta.new) == pytest.approx((before, after), abs=EXACT), where
            seen.add(delta.metric)
    wanted = {name for run in RUNS for name, *_ in SHOWN["runs"][run]["estimates"]}
    assert {name for name in wanted if not metric_of(name).definition.no_delta} == seen


def test_pairs_with_records_compare_row_by_row(pairs: list[Pair]) -> None:
    """With rows, only the rows that failed leave; without, their whole clusters. Both are said."""
    tried = []
    for one, two in pairs:
        base, new = Opened.at(one.folder), Opened.at(two.folder)
        if base.records is None or new.records is None:
            continue
        alike = same_failures(base, new)
        values = stored_values(base), stored_values(new)
        for delta in compare_runs(base, new, comparable(base, new)):
            assert delta.delta is not None
            assert math.isfinite(delta.delta)
            if alike:
                before, after = (value_in(side, delta) for side in values)
                assert before is not None
                assert after is not None
                assert delta.delta == pytest.approx(after - before, abs=EXACT)
        tried.append(alike)
    assert set(tried) == {True, False}


def test_clusters_in_which_other_rows_failed_leave_both_and_are_counted(pairs: list[Pair]) -> None:
    for one, two in pairs:
        base, new = Opened.at(one.folder), Opened.at(two.folder)
        if not same_failures(base, new):
            found = compare_kept(base.kept, new.kept, ["accuracy"], resamples=100)
            assert all("left both" in delta.note for delta in found if not delta.slice)
            return
    raise AssertionError("no pair of runs in which other rows failed")


def test_the_command_line_compares_every_pair(pairs: list[Pair], root: Path) -> None:
    for one, two in pairs:
        base, new = Opened.at(one.folder), Opened.at(two.folder)
        shared = [key for key in new.run.intervals if key in base.run.intervals]
        assert shared, (one.path, two.path)
        same = ["--workflow", two.workflow] if one.workflow == two.workflow else []
        asked = ("--metric", shared[0], "--against", one.run_id, *scope_options(two), *same, "--top", 200)
        found = ok("runs", "compare", *asked, root=root)
        (row,) = (row for row in found["runs"] if row["run_id"] == two.run_id)
        assert row["value"] == new.run.metrics[shared[0]]
        assert [row["low"], row["high"]] == list(new.run.intervals[shared[0]])
        assert math.isfinite(row["delta"]), (one.path, two.path, row["note"])
        if same_failures(base, new):
            difference = new.run.metrics[shared[0]] - base.run.metrics[shared[0]]
            assert row["delta"] == pytest.approx(difference, abs=EXACT)


# -- runs of today beside those of then --------------------------------------------------------------------------------


def table_of(opened: Opened) -> Records | None:
    """The table that a run was made from, None where it was made from vectors."""
    name = Path(str(opened.run.inputs[0]["Path"])).name
    if len(opened.run.inputs) > 1 or Path(name).suffix != ".jsonl" or name.startswith(("queries", "policies")):
        return None
    cluster = opened.evaluation["uncertainty"]["cluster"]
    return read(DATA / name, cluster=cluster[0] if len(cluster) == 1 else None, salvage=not opened.run.complete)


def test_the_same_table_saved_today_differs_from_the_stored_run_by_nothing(listed: list[Listed], copy: Path) -> None:
    """Two editions' evidence of the same answers, compared through the store: each delta is 0, on the stored value."""
    tried = 0
    for run in listed:
        then = Opened.at(run.folder)
        records = table_of(then)
        if records is None:
            continue
        by = dict.fromkeys("*".join(c for c in kept.slice if c not in CELL) for kept in then.kept)
        names = comparable(then)
        result = evaluate(records, names, by=[each for each in by if each], resamples=100, keep_evidence=True)
        scope = Scope(copy, run.domain, run.tenant)
        _, folder = save(scope, result, workflow=run.workflow, clock=Clock(), run_id=f"{run.run_id}-again")
        now = Opened.at(folder)
        assert now.data == then.data, run.path
        values = stored_values(then)
        for delta in kept_deltas(then, now):
            value = value_in(values, delta)
            where = run.path, delta.metric, dict(delta.slice)
            if value is None:
                assert delta.delta is None, where
            else:
                assert delta.delta == pytest.approx(0, abs=EXACT), where
                assert delta.new == pytest.approx(value, abs=EXACT), where
        tried += 1
    assert tried > 20


def test_a_retrieval_run_of_today_pairs_with_one_of_then(copy: Path) -> None:
    """The embedder, the stored shift and the queries are the same, so the ranks are."""
    asked = ("--docs", DATA / "policies.jsonl", "--queries", DATA / "queries-drifted.jsonl", "--embedder", "hash:96")
    found = ok("retrieval", "run", *asked, "--shift", SHOWN["best_shift"], "--workflow", "Today", "--resamples", 200,
               root=copy)  # fmt: skip
    now = Opened.at(Path(found["folder"]))
    with Index(copy) as index:
        (then,) = (
            Opened.at(run.folder)
            for run in index.runs()
            if run.labels.get("shift") == SHOWN["best_shift"] and run.workflow != "Today"
        )
    assert now.run.labels["shift_seen"] == then.run.labels["shift_seen"]
    deltas = compare_runs(then, now, comparable(then, now))
    assert len(deltas)
    assert all(delta.delta == pytest.approx(0, abs=EXACT) for delta in deltas)


# -- gates and pointers ------------------------------------------------------------------------------------------------


def rules(base: Opened, new: Opened) -> list[str]:
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
        asked = [word for rule in rules(Opened.at(one.folder), Opened.at(two.folder)) for word in ("--rule", rule)]
        assert asked, (one.path, two.path)
        pair = ("--run", two.run_id, "--baseline", one.run_id, *scope_options(two))
        done = command("gate", *pair, *asked, "--format", "json", root=copy)
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


def test_gate_documents_of_then_still_read() -> None:
    paths = sorted(STORE.rglob("acceptance_gate.json"))
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


def test_pointers_point_where_they_did(root: Path) -> None:
    whose = dict.fromkeys((scope.domain, scope.tenant) for scope in scopes(root))
    asked = [("--domain", domain, "--tenant", tenant or "-") for domain, tenant in whose]
    now = [found for options in asked for found in ok("runs", "active", "--all", *options, root=root)["pointers"]]
    then = SHOWN["pointers"]
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


def test_pinned_runs_can_be_gated_against(listed: list[Listed], copy: Path) -> None:
    tried = 0
    for scope, pointer in pointers_of(copy):
        if pointer.profile != PINNED:
            continue
        base = Pointers(scope).opened(pointer.stack[-1])
        for run in listed:
            new = Opened.at(run.folder)
            if (run.domain, run.tenant) != (scope.domain, scope.tenant) or new.run.run_id == base.run.run_id:
                continue
            if new.data != base.data or not (about := rules(base, new)):
                continue
            asked = ("--run", run.run_id, "--baseline", f"pinned:{pointer.metric}", "--rule", about[0])
            done = command("gate", *asked, *scope_options(run), "--format", "json", root=copy)
            assert done.code in VERDICTS.values(), done.err
            assert done.json["baseline"] == base.run.run_id
            tried += 1
            break
    assert tried > 1


def test_an_incomplete_run_is_still_not_promoted(listed: list[Listed], copy: Path) -> None:
    torn = [run for run in listed if not run.complete]
    assert torn
    for run in torn:
        asked = ("--metric", next(iter(run.metrics)), *scope_options(run))
        done = command("runs", "promote", run.run_id, *asked, root=copy)
        assert done.code == 5
        assert "not complete" in done.err


# -- what lies beside --------------------------------------------------------------------------------------------------


def test_calibrators_load_and_give_the_confidences_of_then(root: Path) -> None:
    few = read(DATA / "phq8-few.json", where={"strategy": "few_shot"})
    paths = sorted((root / "calibrators").glob("*.json"))
    assert [path.name for path in paths] == sorted(SHOWN["calibrated"])
    for path in paths:
        then = np.array(SHOWN["calibrated"][path.name], dtype=float)
        assert np.isfinite(then).any()
        np.testing.assert_allclose(read_calibrator(path).confidence(few), then, atol=EXACT)
        asked = ("--input", DATA / "phq8-few.json", "--mode", "few_shot", "--calibration", path)
        found = ok("selective", *asked, "--confidence", "all", "--bootstrap-resamples", 0, root=root)
        assert any("calibrated" in name for name in found["confidence_variants"])


def test_selective_artifacts_of_then_still_read(root: Path) -> None:
    paths = sorted(root.glob("selective-*.json"))
    documents = [json.loads(path.read_text()) for path in paths]
    assert {document["comparison"]["enabled"] for document in documents} == {True, False}
    for document in documents:
        assert document["confidence_variants"]


def test_trainings_are_listed_chosen_and_applied(root: Path) -> None:
    found, said = trainings(Scope(root))
    assert said == []
    assert {stored.result.is_cancelled for stored in found} == {True, False}
    assert ok("shift", "best", root=root)["best"]["training"] == SHOWN["best_shift"]
    for stored in found:
        shown = ok("shift", "inspect", stored.id, root=root)
        assert shown["DeltaVector"] == stored.result.delta_vector
        delta = np.array(stored.result.delta_vector)
        shift = named_shift(stored.id, scope=Scope(root), allow_cancelled=True).shift
        queries = np.random.default_rng(0).normal(size=(3, len(delta)))
        np.testing.assert_allclose(applied(shift, queries), queries + stored.result.scale * delta, atol=EXACT)


def test_per_query_files_and_segments_read(root: Path) -> None:
    for path in sorted(root.rglob("eval.perQuery.*.json")):
        entries = read_per_query(path)
        run = Opened.at(path.parent).run
        shifted = "posneg" in path.name
        if shifted == (run.labels["shift"] != "none"):  # the file that the run's own numbers are about
            assert np.mean([entry.ap1 for entry in entries]) == pytest.approx(run.metrics["map@1"], abs=EXACT)
            assert np.mean([entry.ndcg3 for entry in entries]) == pytest.approx(run.metrics["ndcg@3"], abs=EXACT)
    files = sorted(root.glob("segments-*.json"))
    assert {read_segments(path).rule for path in files} == {"gap", "learned", "oracle"}
    for path in files:
        assert ok("segment", "compare", path, "--resamples", 200, root=root)["used"] > 0
    then = json.loads((root / "segment-comparison.json").read_text())
    now = ok("segment", "compare", root / "segments-gap.json", root=root)
    for side in ("baseline", "posneg", "segmented"):
        assert now[side] == pytest.approx(then[side], abs=EXACT)
    assert (now["used"], now["apply"], now["skip"]) == (then["used"], then["apply"], then["skip"])


# -- reading changes nothing, and what cannot be read is said ----------------------------------------------------------


def test_reading_changes_nothing(copy: Path) -> None:
    before = digests(copy)
    assert before == digests(STORE)
    commands: list[tuple[Any, ...]] = [
        ("runs", "list"), ("runs", "metrics"), ("runs", "metrics", "--pivot"), ("runs", "active", "--all"),
        ("runs", "best", "--metric", "accuracy"), ("runs", "index", "--rebuild"), ("shift", "history"),
        ("shift", "best"), ("segment", "compare", copy / "segments-gap.json"),
        ("runs", "history", "--domain", "planning", "--tenant", "acme"),
        ("runs", "decide", "--metric", "mae", "--domain", "planning", "--tenant", "acme"),
    ]  # fmt: skip
    for arguments in commands:
        ok(*arguments, root=copy)
    with Index(copy, all_tenants=True) as index:
        runs = index.runs()
    for run in runs:
        opened = Opened.at(run.folder)
        opened.verify()
        assert opened.evaluation
        assert opened.kept
    assert ok("runs", "show", runs[0].run_id, *scope_options(runs[0]), root=copy)["RunId"] == runs[0].run_id
    for metric in ("mae", "ndcg@10", "map@1"):
        ok("runs", "compare", "--metric", metric, root=copy)
    assert digests(copy) == before


def from_the_future(folder: Path) -> None:
    """Make a run's evidence that of a later edition: another version in its header, and digests that agree."""
    path = folder / "evidence.npz"
    with np.load(path, allow_pickle=False) as arrays:
        held = dict(arrays)
    told = json.loads(held["header"].tobytes())
    held["header"] = np.frombuffer(json.dumps({**told, "version": 99}).encode(), np.uint8)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **held)
    path.write_bytes(buffer.getvalue())
    document = json.loads((folder / "run.json").read_text())
    document["Files"]["evidence.npz"] = hashlib.sha256(buffer.getvalue()).hexdigest()
    (folder / "run.json").write_text(json.dumps({**document, "Digest": digest_of(document)}))


def test_evidence_from_the_future_is_refused_and_hides_no_other_run(pairs: list[Pair], copy: Path) -> None:
    one, two = next(pair for pair in pairs if all("accuracy" in run.metrics for run in pair))
    from_the_future(copy / two.path)
    base, new = Opened.at(copy / one.path), Opened.at(copy / two.path)
    new.verify()
    with pytest.raises(StorageError, match="version 99; this program reads 1"):
        compare_runs(base, new, ["accuracy"])
    assert len(ok("runs", "list", "--all-tenants", root=copy)["runs"]) == len(RUNS)
    assert ok("runs", "show", two.run_id, *scope_options(two), root=copy)["Metrics"] == dict(two.metrics)
    done: Done = command("gate", "--run", two.run_id, "--baseline", one.run_id, "--rule",
                         "low(delta(accuracy)) >= -0.1", *scope_options(two), root=copy)  # fmt: skip
    assert done.code == 5
    assert "version 99; this program reads 1" in done.err
    asked = ("--metric", "accuracy", "--against", one.run_id, *scope_options(two), "--top", 200)
    found = ok("runs", "compare", *asked, root=copy)
    (row,) = (row for row in found["runs"] if row["run_id"] == two.run_id)
    assert "version 99" in row["note"]
    assert any(row["delta"] is not None for row in found["runs"])
