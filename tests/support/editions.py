"""The stores that earlier editions wrote, what they showed of them, and what is asked of their runs."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import tests.golden.plugin
from steelyard.ground.json import plain
from steelyard.metrics.definition import metric_of, metrics
from steelyard.records.labels import value_name
from steelyard.runs.index import RunEntry
from steelyard.runs.saved import SavedRun
from steelyard.study.comparison import compare_kept
from steelyard.uncertainty.number import Delta
from steelyard.uncertainty.settings import Settings
from tests.support.commands import command
from tests.support.places import TESTS

for _name in [name for name in metrics if metrics[name].function.__module__ == tests.golden.plugin.__name__]:
    metrics.remove(_name)  # runs name them with their module; tests of every metric are about those built in

HERE = TESTS / "golden"
DATA = HERE / "data"
VERDICTS = {"pass": 0, "fail": 1, "inconclusive": 6}
EXACT = 1e-9
RESAMPLES = 100  # of the deltas that an edition has told
Pair = tuple[RunEntry, RunEntry]
Slice = frozenset[tuple[str, str]]


@dataclass(frozen=True)
class Edition:
    """A store that an earlier version wrote once.

    `on_disk` are names of classes and of their fields in the headers of `evidence.npz`. They are a file format: whoever
    renames a class or a field has to teach the reader the old name, and to leave this table as it is.
    """

    name: str
    written: str  # the digest of all its files, as that version left them
    evidence: int  # the version of its kept evidence
    on_disk: Mapping[str, str]

    @property
    def store(self) -> Path:
        return HERE / f"{self.name}_edition"

    @cached_property
    def shown(self) -> Any:
        """What that version showed of its own store."""
        return json.loads((HERE / f"{self.name}_edition.json").read_text())

    @cached_property
    def runs(self) -> list[str]:
        """The folders of its runs."""
        return sorted(path.parent.relative_to(self.store).as_posix() for path in self.store.rglob("run.json"))


FIRST = Edition(
    name="first",
    written="9036ffb84d352511ebb529e528a8bfec0b7e4f4f06fc5a889278d59ead16f964",
    evidence=1,
    on_disk={
        "Kept": "slice ids asked failed answered counts asked_rows answered_rows constants evidence",
        "Sums": "names keys ids cells rows excluded is_score binary",
        "SortedRows": "score value cluster ends ids rows excluded reading",
        "Rows": "columns ids cluster rows excluded",
        "Groups": "names groups overall ungrouped",
        "Parts": "parts lost",
        "Signed": "gaps excluded",
    },
)
SECOND = Edition(
    name="second",
    written="2446a1dbfa0d2b4e472b81a7f4607c9a8d963ab7ef9945c9c59ff95c27651b28",
    evidence=2,
    on_disk={
        **FIRST.on_disk,
        "Kept": f"{FIRST.on_disk['Kept']} columns lacking lacking_rows",
        "Tasks": "names parts ids rows tasks holds lost lacking",
        "Held": "sums excluded",
    },
)
EDITIONS = (FIRST, SECOND)


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
    return {(e.metric, sliced(e.slice)): e.value for e in opened.evaluation or ()}


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


def kept_deltas(base: SavedRun, new: SavedRun, *, resamples: int = 0) -> Iterator[Delta]:
    """Every delta that the evidence of two runs can give; what altered questions tell is kept in altered cells only."""
    together: dict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in comparable(base, new):
        together[tuple(i for i, part in enumerate(new.kept) if name in part.evidence)].append(name)
    for names in together.values():
        parts = [[part for part in run.kept if names[0] in part.evidence] for run in (base, new)]
        yield from compare_kept(*parts, names, settings=Settings(resamples=resamples))


def pairs_of(runs: Iterable[RunEntry]) -> list[Pair]:
    """Runs of one scope on the same questions in the same slices, each with the next one that was saved: base, new."""
    alike: dict[Any, list[RunEntry]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: (run.started_at, run.path)):
        opened = SavedRun.at(run.folder)
        slices = frozenset(frozenset(set(kept.slice) - {"model", "strategy"}) for kept in opened.kept)
        alike[run.domain, run.tenant, opened.data, slices].append(run)
    return [pair for runs in alike.values() for pair in pairwise(runs)]


def said_of(deltas: Iterable[Delta]) -> list[Any]:
    """What deltas say, as JSON holds it: metric, slice, value, interval, p-value and verdict."""
    return [plain([d.metric, dict(d.slice), d.delta, d.interval, d.p_value, d.verdict]) for d in deltas]


def compared(pairs: Iterable[Pair]) -> dict[str, list[Any]]:
    """What the deltas of every pair say."""
    return {
        f"{base.path} {new.path}": said_of(
            kept_deltas(SavedRun.at(base.folder), SavedRun.at(new.folder), resamples=RESAMPLES)
        )
        for base, new in pairs
    }


def same_failures(base: SavedRun, new: SavedRun) -> bool:
    """Whether the same rows failed in both, so that no cluster leaves the comparison."""
    return sorted(kept.failed for kept in base.kept) == sorted(kept.failed for kept in new.kept)


def digests(folder: Path) -> dict[str, str]:
    """What every file holds, apart from the index, which is made anew at any time."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and ".index" not in path.parts]
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
