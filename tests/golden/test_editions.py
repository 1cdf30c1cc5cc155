"""Stores that earlier editions wrote, read by this one: what somebody kept then must not be lost now.

`first_edition` was written once, by version 0.1.0, and `second_edition` by 0.10.0; both stay as they are, and
`make_first_edition.py` and `make_second_edition.py` say how they came. Each holds every kind of evidence, label,
cluster and file that its edition could keep, and `first_edition.json` and `second_edition.json` what that edition
showed of it. So these tests ask, whatever the program has become:

* Is every run still listed, verified and shown, with value, interval and method *as stored*? A number that was
  published is not computed anew.
* Can every two runs on the same questions still be compared and gated, from the evidence alone? The difference of
  two stored values is a fact and must come out. Intervals and p-values of deltas follow the rules of today; what
  0.10.0 said of them still holds, of the first edition nothing is asked.
* Can a run that is saved today be compared with one of then? The tables are in `data`, evaluated anew.
* Do pointers, attempts, trainings, per-query files, segments, calibrators, journals and gate documents still read?
* Does reading leave everything as it was?

Runs are found in the stores, not listed here. If a test fails, the program has to learn to read the old form; the
stores must not be made again.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from steelyard.confidence.calibrators.wire import read_calibrator
from steelyard.errors import StorageError
from steelyard.ground.digests import digest_of
from steelyard.ground.json import plain
from steelyard.records.readers import read
from steelyard.report.formats import text
from steelyard.report.runs import run_report
from steelyard.retrieval.per_query import read_per_query
from steelyard.retrieval.shifts.kept import trainings
from steelyard.retrieval.shifts.named import named_shift
from steelyard.retrieval.shifts.segments_wire import read_segments
from steelyard.retrieval.shifts.shift import applied
from steelyard.runs.index import Index, RunEntry
from steelyard.runs.layout import Scope
from steelyard.runs.run_json import run_document
from steelyard.runs.saved import SavedRun, compare_runs
from tests.support.commands import Done, command
from tests.support.editions import DATA, EXACT, Edition, Pair, digests, ok, scope_options

# -- the stores themselves ---------------------------------------------------------------------------------------------

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


def test_the_store_is_as_its_edition_wrote_it(edition: Edition) -> None:
    """Nobody makes it again, mends it or converts its line ends: then it would prove nothing."""
    whole = json.dumps(digests(edition.store), sort_keys=True).encode()
    assert hashlib.sha256(whole).hexdigest() == edition.written


def test_the_store_holds_every_kind_of_evidence_under_the_names_of_its_edition(edition: Edition) -> None:
    kinds: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    readings, forms = set(), set()
    for run in edition.runs:
        found = header(edition.store / run / "evidence.npz")
        assert found["version"] == edition.evidence
        for node in nodes(found["parts"]):
            if "kind" in node:
                kinds[node["kind"]].add(tuple(node["fields"]))
            if isinstance(node.get("type"), str):
                readings.add(node["type"])
            forms |= FORMS & set(node)
    assert kinds == {name: {tuple(fields.split())} for name, fields in edition.on_disk.items()}
    assert readings == READINGS
    assert forms == FORMS


def test_the_store_holds_what_it_is_for(edition: Edition, listed: list[RunEntry]) -> None:
    """If this fails, the store was changed, not the program."""
    assert {run.path for run in listed} == set(edition.runs) == set(edition.shown["runs"])
    assert {run.tenant for run in listed} > {None}
    assert len({run.domain for run in listed}) > 1
    opened = [SavedRun.at(run.folder) for run in listed]
    assert {run.records is None for run in opened} == {True, False}
    assert {run.run.complete for run in opened} == {True, False}
    parts = [kept for run in opened for kept in run.kept]
    assert {type(part) for kept in parts for id_ in kept.ids for part in id_} == {str, int}
    assert {outcome for kept in parts for outcome, count in kept.counts.items() if count} == {
        "answered", "abstained", "unparsed", "failed",
    }  # fmt: skip
    assert {"model", "perturbation", "group.site", "group.decade"} <= {name for kept in parts for name in kept.slice}
    assert not list(edition.store.rglob(".index"))
    assert not list(edition.store.rglob(".lock"))


# -- runs as they were stored ------------------------------------------------------------------------------------------


def test_every_run_is_listed_as_it_was(edition: Edition, root: Path) -> None:
    found = ok("runs", "list", "--all-tenants", root=root)
    assert found["problems"] == []
    assert len(found["runs"]) == len(edition.runs)
    for now, then in zip(found["runs"], edition.shown["list"], strict=True):
        assert {key: now[key] for key in then} == then


def test_every_run_is_shown_as_it_was_stored(edition: Edition, root: Path) -> None:
    for path, then in edition.shown["runs"].items():
        opened = SavedRun.at(root / path)
        opened.verify()
        replies = {name.capitalize(): path.relative_to(root).as_posix() for name, path in opened.replies.items()}
        now = plain(run_document(opened.run)) | replies  # what `runs show` prints as JSON
        assert opened.run.run_id in text.render(run_report(opened)), path
        assert {key: now[key] for key in then["show"] if key != "Digest"} == {
            key: value for key, value in then["show"].items() if key != "Digest"
        }, path
        fields = ("metric", "slice", "value", "interval", "method", "n")
        stored = [e.to_dict() for e in opened.evaluation or ()]
        assert [[e[name] for name in fields] for e in stored] == then["estimates"], path


# -- what lies beside --------------------------------------------------------------------------------------------------


def test_calibrators_load_and_give_the_confidences_of_then(edition: Edition, root: Path) -> None:
    few = read(DATA / "phq8-few.json", where={"strategy": "few_shot"})
    paths = sorted((root / "calibrators").glob("*.json"))
    assert [path.name for path in paths] == sorted(edition.shown["calibrated"])
    for path in paths:
        then = np.array(edition.shown["calibrated"][path.name], dtype=float)
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


def test_trainings_are_listed_chosen_and_applied(edition: Edition, root: Path) -> None:
    found, said = trainings(Scope(root))
    assert said == []
    assert {stored.result.is_cancelled for stored in found} == {True, False}
    assert ok("shift", "best", root=root)["best"]["training"] == edition.shown["best_shift"]
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
        run = SavedRun.at(path.parent).run
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


def test_reading_changes_nothing(edition: Edition, copy: Path) -> None:
    before = digests(copy)
    assert before == digests(edition.store)
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
        opened = SavedRun.at(run.folder)
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


def test_evidence_from_the_future_is_refused_and_hides_no_other_run(
    edition: Edition, pairs: list[Pair], copy: Path
) -> None:
    one, two = next(pair for pair in pairs if all("accuracy" in run.metrics for run in pair))
    from_the_future(copy / two.path)
    base, new = SavedRun.at(copy / one.path), SavedRun.at(copy / two.path)
    new.verify()
    with pytest.raises(StorageError, match="version 99; this program reads 1"):
        compare_runs(base, new, ["accuracy"])
    assert len(ok("runs", "list", "--all-tenants", root=copy)["runs"]) == len(edition.runs)
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
