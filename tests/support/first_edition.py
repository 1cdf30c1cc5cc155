"""The store that the first edition wrote, what it showed of it, and what is asked of its runs."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steelyard.metrics.definition import metric_of
from steelyard.records.labels import value_name
from steelyard.runs.index import RunEntry
from steelyard.runs.saved import SavedRun
from steelyard.study.comparison import compare_kept
from steelyard.uncertainty.number import Delta
from steelyard.uncertainty.settings import Settings
from tests.support.commands import command
from tests.support.places import TESTS

HERE = TESTS / "golden"
STORE, DATA = HERE / "first_edition", HERE / "data"
SHOWN: Any = json.loads((HERE / "first_edition.json").read_text())
RUNS = sorted(path.parent.relative_to(STORE).as_posix() for path in STORE.rglob("run.json"))
VERDICTS = {"pass": 0, "fail": 1, "inconclusive": 6}
EXACT = 1e-9
Pair = tuple[RunEntry, RunEntry]
Slice = frozenset[tuple[str, str]]


def ok(*arguments: Any, root: Path) -> Any:
    """What a command says in JSON."""
    done = command(*arguments, "--format", "json", root=root)
    assert done.code == 0, (arguments, done.err)
    return done.json


def scope_options(run: RunEntry) -> list[str]:
    return ["--domain", run.domain, *(["--tenant", run.tenant] if run.tenant else [])]


def sliced(slice_: Any) -> Slice:
    """A slice to look up by; which model or strategy it was is what tells two runs apart."""
    return frozenset((name, value_name(value)) for name, value in slice_.items())


def stored_values(opened: SavedRun) -> dict[tuple[str, Slice], float | None]:
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


def comparable(*runs: SavedRun) -> list[str]:
    """The metrics whose evidence all of these kept, and that may be compared at all."""
    kept = [{name for part in run.kept for name in part.evidence} for run in runs]
    return sorted(name for name in set.intersection(*kept) if not metric_of(name).no_delta)


def kept_deltas(base: SavedRun, new: SavedRun) -> Iterator[Delta]:
    """Every delta that the evidence of two runs can give; what altered questions tell is kept in altered cells only."""
    together: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in comparable(base, new):
        together[tuple(i for i, part in enumerate(new.kept) if name in part.evidence)].append(name)
    for names in together.values():
        parts = [[part for part in run.kept if names[0] in part.evidence] for run in (base, new)]
        yield from compare_kept(*parts, names, settings=Settings(resamples=100))


def same_failures(base: SavedRun, new: SavedRun) -> bool:
    """Whether the same rows failed in both, so that no cluster leaves the comparison."""
    return sorted(kept.failed for kept in base.kept) == sorted(kept.failed for kept in new.kept)


def digests(folder: Path) -> dict[str, str]:
    """What every file holds, apart from the index, which is made anew at any time."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".index" not in path.parts]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
