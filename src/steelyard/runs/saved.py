"""A run is kept: its folder written from an evaluation, opened again, verified, and compared with another.

run.json            what the run is, its numbers, digests of the files next to it
evaluation.json     every estimate with interval and denominator
evidence.npz        what a later comparison needs instead of the rows
records.parquet     the rows themselves, only where asked for: they may hold patient data

A retrieval run has its per-query files, its ingest manifest and what its shift did next to them; a run of the
evaluators has run_manifest.json, which says how it came about.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

from steelyard.errors import InputError, StorageError, UsageError, printable
from steelyard.ground.digests import CHANGED
from steelyard.ground.files import read_plain, write_folder
from steelyard.ground.json import dumps, strict
from steelyard.metrics.definition import Metric, MetricLike, known_metric
from steelyard.naming import Expr
from steelyard.records.extras import Extra
from steelyard.records.schema import CELL
from steelyard.records.table import Records
from steelyard.runs import manifest as manifest_
from steelyard.runs.documented import details, documented
from steelyard.runs.layout import CACHE, JOURNAL, RUNNING, Scope, access, inside
from steelyard.runs.manifest import RunManifest, manifest_document
from steelyard.runs.run_json import NAME, RowCounts, Run, read_run, run_document, stamp
from steelyard.study.cells import columns_of, several
from steelyard.study.comparison import Align, compare, compare_kept, told_of
from steelyard.study.defaults import choose, leading, listed_metrics
from steelyard.study.deltas import Unchanged
from steelyard.study.evaluation import evaluate
from steelyard.study.kept import KeptSlice
from steelyard.study.kept_wire import packed, unpacked
from steelyard.study.primary import Primary, questions
from steelyard.study.results import Comparison, Evaluation
from steelyard.study.wire import document_of, flat_key
from steelyard.uncertainty.settings import Settings

EVALUATION, EVIDENCE, RECORDS = "evaluation.json", "evidence.npz", "records.parquet"
INGEST, METRICS, METRICS_REPORT = "ingest.json", "metrics-posneg.json", "metrics-posneg.md"
EVALUATORS, ACCEPTANCE, MANIFEST = "evaluators.json", "acceptance_gate.json", manifest_.NAME
BASELINE, SHIFTED = "eval.perQuery.baseline.json", "eval.perQuery.posneg.json"
MOST_COUNTS = 250_000  # of confusion matrices in a run.json; evaluation.json holds them all
SEEN = "shift_seen"  # the label of a run whose shift was learned from its own queries
COMBINED_NAME = "combined"  # the label of a benchmark's run: what it calls its combined score
FILES = (
    EVALUATION,
    EVIDENCE,
    RECORDS,
    BASELINE,
    SHIFTED,
    INGEST,
    METRICS,
    METRICS_REPORT,
    EVALUATORS,
    ACCEPTANCE,
    MANIFEST,
)


class Clock:
    """When a run began and ended: the end is the begin plus what a clock that never steps back has measured."""

    def __init__(self) -> None:
        self._began, self._ticks = datetime.now(UTC), time.monotonic()

    @property
    def began(self) -> str:
        return stamp(self._began)

    @property
    def now(self) -> str:
        return stamp(self._began + timedelta(seconds=time.monotonic() - self._ticks))


def free_place(scope: Scope, workflow: str, run_id: str) -> Path:
    """Where a run would be kept; an error where its names are not plain or it is there already."""
    folder = inside(scope.root, scope.run(workflow, run_id))
    if folder.exists():
        raise StorageError(f"{printable(folder)} is there already; a run is never written over")
    return folder


@dataclass(frozen=True)
class RunFolder:
    """A run and all files of its folder, run.json included, before they are written anywhere."""

    run: Run
    files: Mapping[str, bytes]


def save(scope: Scope, evaluation: Evaluation, **about: Any) -> tuple[Run, Path]:
    """Write a run folder, and return the run and where it is; `about` is what `run_folder` takes."""
    folder = run_folder(evaluation, tenant=scope.tenant, **about)
    (path,) = keep(scope, folder)
    return folder.run, path


def keep(scope: Scope, *runs: RunFolder) -> list[Path]:
    """Write run folders, and return where they are; of several, all are there in the end or none."""
    places = [inside(scope.root, scope.run(each.run.workflow, each.run.run_id)) for each in runs]
    try:
        for place, each in zip(places, runs, strict=True):
            write_folder(place, each.files, access(scope.root))
    except BaseException:
        for place, each in zip(places, runs, strict=True):
            if len(runs) > 1:
                _take_back(scope, place, each)
        raise
    return places


def _take_back(scope: Scope, place: Path, folder: RunFolder) -> None:
    """Remove a run folder that was just written, and the folders above it that held nothing else."""
    try:
        if read_plain(place / NAME) != folder.files[NAME]:
            return  # somebody else's run of that name
    except OSError:  # not there, or not to be told from somebody else's
        return
    shutil.rmtree(place, ignore_errors=True)
    with suppress(OSError):  # the first that is not empty
        for above in place.parents[: len(place.relative_to(scope.root).parts) - 1]:
            above.rmdir()


def run_folder(
    evaluation: Evaluation,
    *,
    workflow: str,
    clock: Clock,
    tenant: str | None = None,
    labels: Mapping[str, str] | None = None,
    run_id: str | None = None,
    records: Records | None = None,
    more_files: Mapping[str, bytes] | None = None,
    numbers: Mapping[str, float] | None = None,
    manifest: RunManifest | None = None,
) -> RunFolder:
    """A run of an evaluation. `records` keeps the rows too.

    `more_files` are further files of the run, `numbers` further ones among its Metrics; `manifest` says how it came
    about.

    A run on a file of which only a part could be read, or that is an excerpt of more, is kept as incomplete: it can be
    looked at, not promoted.
    """
    unknown = [file for file in more_files or {} if file not in FILES]
    if unknown:
        raise ValueError(f"{unknown[0]} is no file of a run")
    name = run_id or str(uuid.uuid4())
    files = {
        EVALUATION: dumps(evaluation.to_dict()).encode(),
        EVIDENCE: packed(evaluation.kept),
        **({RECORDS: _parquet(records)} if records is not None else {}),
        **(more_files or {}),
    }
    if manifest is not None:
        files[MANIFEST] = dumps(manifest_document(manifest, _digests(files))).encode()
    estimates = {flat_key(e.metric, e.slice): e for e in evaluation}
    other_names = {key: number for key, number in documented(evaluation).items() if key not in estimates}
    values = {key: float(e.value) for key, e in estimates.items() if e.value is not None}
    shown = {key: estimates[key] for key in values}
    shown |= {key: number.estimate for key, number in other_names.items() if number.estimate is not None}
    better = {key: e.better for key, e in estimates.items()}
    better |= {key: number.better for key, number in other_names.items()}
    run = Run(
        run_id=name,
        workflow=workflow,
        tenant=tenant,
        started_at=clock.began,
        completed_at=clock.now,
        complete=all(source.is_whole for source in evaluation.sources),
        labels={str(k): str(v) for k, v in (labels or {}).items()},
        metrics=values | {key: number.value for key, number in other_names.items()} | dict(numbers or {}),
        intervals={key: e.interval for key, e in shown.items() if e.interval is not None},
        counted={key: RowCounts(e.n_evaluated, e.n_abstained, e.n_predictions) for key, e in shown.items()},
        better={key: known for key, known in better.items() if known is not None},
        details=details(evaluation, most_counts=MOST_COUNTS),
        reading={**evaluation.reading, "rows": evaluation.population["rows"]} if evaluation.reading else {},
        warnings=evaluation.warnings,
        files=_digests(files),
        inputs=tuple({"Path": s.name, "Sha256": s.sha256, "Rows": s.rows} for s in evaluation.sources),
        sealed=True,
    )
    return RunFolder(run, {**files, NAME: dumps(run_document(run)).encode()})


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {file: hashlib.sha256(data).hexdigest() for file, data in files.items()}


@dataclass(frozen=True)
class SavedRun:
    """A run that was kept, with what lies next to its run.json; every file is checked before it is used."""

    run: Run
    folder: Path

    @classmethod
    def at(cls, folder: Path) -> SavedRun:
        return cls(read_run(folder), folder)

    @property
    def name(self) -> str:
        return printable(self.run.run_id)

    @property
    def replies(self) -> dict[str, Path]:
        """Where the replies are that a run of models was made from: its journal, and the cache, if they are there."""
        scope = self.folder.parents[2]
        places = {"journal": scope / RUNNING / self.folder.name / JOURNAL, "cache": scope / CACHE}
        return {name: path for name, path in places.items() if path.is_file()} if places["journal"].is_file() else {}

    def verify(self) -> None:
        """Read every file that the run wrote and compare its digest."""
        for name in self.run.files:
            self._bytes(name)

    @cached_property
    def evaluation(self) -> Evaluation | None:
        """What the run's evaluation.json holds; None where the run kept only its numbers."""
        if EVALUATION not in self.run.files:
            return None
        try:
            stored = document_of(strict(self._bytes(EVALUATION), EVALUATION), EVALUATION)
        except InputError as problem:
            where = f"{problem.field}: " if problem.field else ""
            raise StorageError(f"run {self.name}: {EVALUATION}: {where}{problem.problem}") from None
        except (ValueError, TypeError):
            raise StorageError(f"run {self.name}: {EVALUATION} is not valid JSON") from None
        if not isinstance(stored, Evaluation):
            raise StorageError(f"run {self.name}: {EVALUATION} holds a comparison")
        return stored

    @cached_property
    def kept(self) -> list[KeptSlice]:
        if EVIDENCE not in self.run.files:
            raise StorageError(
                f"run {self.name} kept no evidence, only its numbers; it cannot be compared pair by pair"
            )
        return unpacked(self._bytes(EVIDENCE))

    @cached_property
    def records(self) -> Records | None:
        if RECORDS not in self.run.files:
            return None
        records = _records(self._bytes(RECORDS), str(self.folder / RECORDS))
        if self.evaluation is not None:
            records.reading, records.is_told = self.evaluation.reading, self.evaluation.is_told
        return records

    @property
    def data(self) -> str:
        """What was asked, as one digest: equal for runs on the same questions and targets, however they were sliced."""
        cells = sorted(kept.asked_by_value for kept in self.kept if set(kept.slice) <= set(CELL))
        return hashlib.sha256(b"".join(cells)).hexdigest()[:16]

    def file(self, name: str) -> Path:
        """Where a file of the run is, after it was verified; an error where the run has no such file."""
        if name not in self.run.files:
            raise StorageError(f"run {self.name} has no {name}")
        self._bytes(name)
        return self.folder / name

    def _bytes(self, name: str) -> bytes:
        if name not in FILES:
            raise StorageError(f"run {self.name}: Files: '{printable(name, limit=40)}' is no file of a run")
        try:
            data = read_plain(self.folder / name)
        except OSError as problem:
            reason = (problem.strerror or type(problem).__name__).lower()
            raise StorageError(f"run {self.name}: {name} cannot be read ({reason})") from None
        if hashlib.sha256(data).hexdigest() != self.run.files[name]:
            raise StorageError(f"run {self.name}: {name} {CHANGED}")
        return data


def compare_runs(
    base: SavedRun | Records,
    new: SavedRun | Records,
    metrics: Sequence[MetricLike | Expr] | None = None,
    *,
    settings: Settings | None = None,
    unchanged: Unchanged = "say",
    align: Align = "strict",
    by: Sequence[str] | None = None,
    primary: Primary = None,
) -> Comparison:
    """Paired deltas of two runs, of which one at least was kept, cell by cell as it was evaluated.

    From the rows of both, where both have them; else from evidence, which of a table is collected as keeping it would.
    Of a benchmark, tasks and what is over all of them are slices that no one table splits into: evidence tells.

    `by` are the slices to compare as well, by default all that the runs were evaluated in. Without metrics, those that
    suit the answers and were kept.
    """
    runs = [side for side in (base, new) if isinstance(side, SavedRun)]
    tables = [side.records if isinstance(side, SavedRun) else side for side in (base, new)]
    slices, own = _evaluated_in(*runs)
    every = list(dict.fromkeys(own if by is None else by))
    told: dict[str, Any] = {"settings": settings, "unchanged": unchanged, "primary": primary}
    one, two = tables
    if one is not None and two is not None and two.task.benchmark is None:
        pool = pooled(slices, (one, two))
        found = compare(one, two, metrics, by=every, pool=pool, align=align, **told)
        return _named(told_of(found, *(run.evaluation for run in runs)), base, new)
    asked: Sequence[MetricLike | Expr]
    if metrics is None:
        asked = chosen = _kept_by_all(runs, tables)
        told["primary"] = leading(chosen) if primary is None else primary
    else:
        asked = metrics

    def kept(side: SavedRun | Records) -> tuple[Sequence[KeptSlice], Evaluation | None]:
        if isinstance(side, SavedRun):
            return [part for part in side.kept if by is None or _is_among(part.slice, by)], side.evaluation
        every_metric = [*asked, *(question.metric for question in questions(primary))]
        made = evaluate(side, every_metric, by=every, pool=pooled(slices, [side]), keep_evidence=True, resamples=0)
        return made.kept, made

    (mine, of_mine), (theirs, of_theirs) = kept(base), kept(new)
    return _named(compare_kept(mine, theirs, asked, about=(of_mine, of_theirs), **told), base, new)


def _named(comparison: Comparison, *sides: SavedRun | Records) -> Comparison:
    """The comparison with kept runs called by their ids, and with the files that they were made of."""
    names, sources = dict(comparison.names), dict(comparison.sources)
    for side, of in zip(("base", "new"), sides, strict=True):
        if isinstance(of, SavedRun):
            names[side] = f"run {of.run.run_id}"
            sources[side] = sources[side] if of.evaluation is None else of.evaluation.sources
        else:
            sources[side] = of.sources
    return replace(comparison, names=names, sources=sources)


def _kept_by_all(runs: Sequence[SavedRun], tables: Sequence[Records | None]) -> list[Metric]:
    """The metrics that suit a table and that runs without rows kept; without a table, those that all runs kept."""
    table = next((table for table in tables if table is not None), None)
    names = [{name for part in run.kept for name in part.evidence} for run in runs if run.records is None or not table]
    kept = [known_metric(name) for part in runs[0].kept for name in part.evidence] if table is None else []
    suiting = [m for m in kept if m] if table is None else listed_metrics(choose(table, comparable=True))
    found = [m for m in dict.fromkeys(suiting) if not m.no_delta and all(str(m) in own for own in names)]
    if not found:
        raise UsageError("the runs kept none of the metrics that suit these answers; name one with `metric=`")
    return found


def _is_among(slice_: Mapping[str, Any], by: Sequence[str]) -> bool:
    """True for a cell, and for a slice of the columns that were asked for."""
    own = set(slice_) - set(CELL)
    return not own or any(own == set(columns_of(group)) - set(CELL) for group in by)


def _evaluated_in(*runs: SavedRun) -> tuple[list[Mapping[str, Any]], list[str]]:
    """The slices that runs were evaluated in, and what they were sliced by beyond cells."""
    slices = [kept.slice for run in runs for kept in run.kept]
    own = ["*".join(c for c in slice_ if c not in CELL) for slice_ in slices if set(slice_) - set(CELL)]
    return slices, list(dict.fromkeys(own))


def pooled(slices: Sequence[Mapping[str, Any]], tables: Sequence[Records]) -> list[str]:
    """The cell columns that runs pooled over: tables have several values of them, and no slice names them."""
    seen = {column for slice_ in slices for column in slice_}
    return [c for c in CELL if c not in seen and any(c in t and several(t, c) for t in tables)]


def _parquet(records: Records) -> bytes:
    import pyarrow.parquet as pq

    task = records.task
    about: dict[str, Any] = {
        "cluster": list(records.cluster_columns),
        "task": {"labels": task.labels, "range": task.range, "direction": task.direction, "facts": dict(task.facts)},
    }
    if task.lexicon:
        about["task"]["lexicon"] = task.lexicon
    if task.benchmark is not None:
        about["task"]["benchmark"] = task.benchmark.to_dict()
    if records.extras:
        kept = {name: records.extra(name) for name in records.extras}
        about["extras"] = {n: {"problem": e.problem.problem, "json": e.is_json} for n, e in kept.items()}
    buffer = BytesIO()
    pq.write_table(records.to_arrow().replace_schema_metadata({"steelyard": json.dumps(about)}), buffer)
    return buffer.getvalue()


def _records(data: bytes, name: str) -> Records:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(BytesIO(data))
        about = strict(table.schema.metadata[b"steelyard"], name)
    except (pa.ArrowException, InputError, KeyError, TypeError, ValueError):
        raise StorageError(f"{printable(name)}: not the records of a run") from None
    try:
        table.validate(full=True)
    except pa.ArrowInvalid:
        said = "its texts are not UTF-8: they hold half characters as versions before 0.11.0 wrote them"
        raise StorageError(f"{printable(name)}: {said}") from None
    cluster, unread = about["cluster"], about.get("extras", {})
    columns = {column: table.column(column) for column in table.column_names if column not in unread}
    extras = {
        column: Extra(
            table.column(column).combine_chunks(), InputError(why["problem"], field=column), is_json=bool(why["json"])
        )
        for column, why in unread.items()
    }
    try:
        return Records.from_columns(
            columns, cluster=cluster[0] if len(cluster) == 1 else None, task=about["task"], extras=extras
        )
    except UsageError as problem:
        raise StorageError(f"{printable(name)}: {problem}") from None
