"""`run.json`: the document that every run folder has, as documented, and what is read back from it.

PascalCase keys; other tools' files in the same schema are read whatever the case of their keys. Files written here also
carry digests: of the files next to them, and of the document itself, so that a flipped byte or a hand edit is noticed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import StorageError, printable
from steelyard.ground.digests import CHANGED, digest_of, is_sealed
from steelyard.ground.files import read_plain
from steelyard.ground.json import Flaw, NotJsonError, flaws, parse_document, plain, refusal
from steelyard.runs.keys import looked_up

NAME = "run.json"
LARGEST = 64 * 2**20
_EXACT = 2**53  # up to which whole numbers stay what they are
_ALIASES = {"workflowname": "workflow", "finishedutc": "completedatutc", "startedutc": "startedatutc"}


@dataclass(frozen=True)
class RowCounts:
    """The rows behind a number: those that count, and of the slice's those declined and those with a reply.

    Files of earlier versions say only the first.
    """

    n_evaluated: int
    n_abstained: int | None = None
    n_predictions: int | None = None

    @property
    def written(self) -> int | dict[str, int]:
        """As it is written in a file: an object, or as earlier versions had it, a plain number."""
        known = {name: n for name, n in asdict(self).items() if n is not None}
        return known if len(known) > 1 else self.n_evaluated


class RunFile(msgspec.Struct, rename="pascal"):
    """`run.json`: one run and its numbers. `Counts` are whole numbers in files of earlier versions."""

    schema_version: str
    run_id: str
    workflow: str
    tenant: str
    started_at_utc: str
    completed_at_utc: str | None
    complete: bool
    labels: dict[str, str]
    metrics: dict[str, float]
    intervals: dict[str, tuple[float | None, float | None]]
    counts: dict[str, int | dict[str, int]]
    better: dict[str, str]
    inputs: list[dict[str, Any]]
    files: dict[str, str]
    digest: str
    details: dict[str, Any] = {}
    reading: dict[str, Any] = {}
    warnings: list[str] = []


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run as its run.json tells it. `sealed`: written here, with digests."""

    run_id: str
    workflow: str
    tenant: str | None
    started_at: str
    completed_at: str | None
    complete: bool
    labels: Mapping[str, str]
    metrics: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    counted: Mapping[str, RowCounts] = field(default_factory=dict)
    better: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, Any] | None = None  # what comes together with the numbers; earlier versions kept none
    reading: Mapping[str, Any] = field(default_factory=dict)  # how its rows were chosen and read
    warnings: tuple[str, ...] = ()  # what was said of them
    files: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[Mapping[str, Any], ...] = ()
    sealed: bool = False

    @property
    def counts(self) -> dict[str, int]:
        """How many rows count in each number."""
        return {key: rows.n_evaluated for key, rows in self.counted.items()}

    def value(self, key: str) -> float | None:
        """A metric's value by its key; of other tools' files, whatever the case."""
        return looked_up(self.metrics, key, exact=self.sealed)


def run_document(run: Run) -> dict[str, Any]:
    """The document, with its own digest."""
    document: dict[str, Any] = {
        "SchemaVersion": "1",
        "RunId": run.run_id,
        "Workflow": run.workflow,
        "Tenant": run.tenant or "",
        "StartedAtUtc": run.started_at,
        "CompletedAtUtc": run.completed_at,
        "Complete": run.complete,
        "Labels": dict(run.labels),
        "Metrics": dict(run.metrics),
        "Intervals": {key: plain(ends) for key, ends in run.intervals.items()},  # an unknown end is null
        "Counts": {key: rows.written for key, rows in run.counted.items()},
        "Better": dict(run.better),
        **({} if run.details is None else {"Details": dict(run.details)}),
        **({"Reading": plain(run.reading)} if run.reading else {}),
        **({"Warnings": list(run.warnings)} if run.warnings else {}),
        "Inputs": [dict(i) for i in run.inputs],
        "Files": dict(run.files),
    }
    return {**document, "Digest": digest_of(document)}


def read_run(folder: Path) -> Run:
    """The run in a folder; what is not as it must be is an error that names the run and the field."""
    try:
        raw = read_plain(folder / NAME, LARGEST)
    except OSError as problem:
        reason = (problem.strerror or type(problem).__name__).lower()
        raise StorageError(f"run {printable(folder.name)}: run.json cannot be read ({reason})") from None
    return _Reader(folder.name, _document(folder.name, raw)).run()


def _document(name: str, raw: bytes) -> dict[str, Any]:
    try:
        document = parse_document(raw)
    except NotJsonError as problem:
        raise StorageError(f"run {printable(name)}: run.json: {problem.problem}") from None
    for path, flaw in flaws(document):
        if not _is_metric(path) or flaw.key is not None:
            field_ = ".".join(map(str, path))
            raise StorageError(f"run {printable(name)}: {printable(field_)}: {flaw.problem}")
    if not isinstance(document, dict):
        raise StorageError(f"run {printable(name)}: run.json: an object is expected")
    return document


def _is_metric(path: tuple[str | int, ...]) -> bool:
    """True if a path is that of a metric: a NaN there is a missing metric, not a broken run."""
    return len(path) == 2 and str(path[0]).lower() == "metrics"


class _Reader:
    """Takes a document apart, field by field."""

    def __init__(self, name: str, document: dict[str, Any]) -> None:
        self._name, self._document = name, document
        self._fields: dict[str, Any] = {}
        for key, value in document.items():
            lower = _ALIASES.get(key.lower(), key.lower())
            if lower in self._fields:
                raise self._error(key, "the field appears twice, in different cases")
            self._fields[lower] = value

    def run(self) -> Run:
        future = refusal(self._document)
        if future:
            raise self._error("SchemaVersion", future)
        sealed = "digest" in self._fields or self._is_ours()
        if sealed and not is_sealed(self._document, self._fields.get("digest")):
            raise self._error("Digest", f"the file {CHANGED}")
        completed = self._time("completedatutc")
        started = self._time("startedatutc") or completed or ""
        metrics = self._numbers("metrics")
        return Run(
            run_id=self._text("runid", self._name),
            workflow=self._text("workflow", self._name),
            tenant=self._text("tenant", "") or None,
            started_at=started,
            completed_at=completed,
            complete=completed is not None and self._complete(),
            labels={key: str(value) for key, value in self._mapping("labels").items()},
            metrics=metrics,
            intervals=self._intervals(),
            counted=self._counted(),
            better={key: str(value) for key, value in self._mapping("better").items()},
            details=self._mapping("details") if sealed and "details" in self._fields else None,
            reading=self._mapping("reading") if sealed else {},
            warnings=tuple(map(str, self._list("warnings"))) if sealed else (),
            files={key: str(value) for key, value in self._mapping("files").items()},
            inputs=self._inputs(),
            sealed=sealed,
        )

    def _complete(self) -> bool:
        value = self._fields.get("complete", True)
        if value is not None and not isinstance(value, bool):
            raise self._error("Complete", "true or false is expected")
        return value is True

    def _is_ours(self) -> bool:
        """True if the file was written here, though its digest is gone."""
        files = self._fields.get("files")
        return "intervals" in self._fields or (isinstance(files, dict) and "evaluation.json" in files)

    def _inputs(self) -> tuple[Mapping[str, Any], ...]:
        value = self._fields.get("inputs") or []
        if not isinstance(value, list) or not all(isinstance(i, dict) for i in value):
            raise self._error("Inputs", "a list of objects is expected")
        return tuple(value)

    def _list(self, key: str) -> list[Any]:
        value = self._fields.get(key) or []
        if not isinstance(value, list):
            raise self._error(key, "a list is expected")
        return value

    def _text(self, key: str, instead: str) -> str:
        value = self._fields.get(key)
        if value is None:
            return instead
        if not isinstance(value, str):
            raise self._error(key, "text is expected")
        if not value and key == "runid":
            raise self._error(key, "an id is expected")
        return value

    def _time(self, key: str) -> str | None:
        text = self._text(key, "")
        if not text:
            return None
        try:
            moment = datetime.fromisoformat(text)
            return stamp(moment if moment.tzinfo else moment.replace(tzinfo=UTC))
        except (ValueError, OverflowError):
            raise self._error(key, "a time such as 2026-01-03T00:00:00Z is expected") from None

    def _mapping(self, key: str) -> dict[str, Any]:
        value = self._fields.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._error(key, "an object is expected")
        return value

    def _numbers(self, key: str) -> dict[str, float]:
        """The numbers of a mapping; null and NaN are left out, anything else is an error."""
        numbers = {}
        for name, value in self._mapping(key).items():
            if value is None or isinstance(value, Flaw):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self._error(f"{key}.{name}", "a number is expected")
            if math.isfinite(value):
                numbers[name] = value if isinstance(value, int) and abs(value) <= _EXACT else float(value)
        return numbers

    def _counted(self) -> dict[str, RowCounts]:
        """Plain numbers, or objects that say more."""
        counts = {}
        for name, value in self._mapping("counts").items():
            if value is None or isinstance(value, Flaw):
                continue
            inside = value if isinstance(value, dict) else {"n_evaluated": value}
            n: Any = inside.get("n_evaluated")
            others = [inside.get(part) for part in ("n_abstained", "n_predictions")]
            if not _is_count(n) or not all(other is None or _is_count(other) for other in others):
                raise self._error(f"Counts.{name}", "a number of rows, or an object with n_evaluated, is expected")
            counts[name] = RowCounts(int(n), *(None if other is None else int(other) for other in others))
        return counts

    def _intervals(self) -> dict[str, tuple[float, float]]:
        intervals = {}
        for name, value in self._mapping("intervals").items():
            pair = isinstance(value, list) and len(value) == 2
            if not pair or not all(end is None or isinstance(end, int | float) for end in value):
                raise self._error(f"Intervals.{name}", "[low, high] is expected")
            low, high = value
            intervals[name] = (-math.inf if low is None else float(low), math.inf if high is None else float(high))
        return intervals

    def _error(self, field_: str, problem: str) -> StorageError:
        return StorageError(f"run {printable(self._name)}: {printable(field_)}: {problem}")


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= _EXACT


def stamp(moment: datetime) -> str:
    """A time as it is written: UTC, to the microsecond, so that text order is time order."""
    there = moment.astimezone(UTC)
    return f"{there.year:04d}{there.strftime('-%m-%dT%H:%M:%S.%fZ')}"
