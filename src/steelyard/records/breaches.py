"""Rules of a whole table: every row has its cluster, no record appears twice, every target is among the labels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from steelyard.errors import InputError, printable
from steelyard.records.fingerprints import fingerprints, mixed
from steelyard.records.labels import label_key
from steelyard.records.schema import KEY, Where

if TYPE_CHECKING:
    from steelyard.records.table import Records


def breaches(records: Records, cluster: str | None, where: Where) -> Iterator[InputError]:
    """What breaks a rule of the whole table: clusters that are missing, records that appear twice, other labels."""
    if cluster is not None and records.column(cluster).null_count:
        bad = pc.is_null(records.column(cluster))
        file, line = where(int(pc.index(bad, True).as_py()))
        rows = int(pc.sum(bad).as_py())
        yield InputError("every row needs its cluster", file=file, line=line, field=cluster, rows=rows)
    yield from _duplicates(records, where)
    yield from _other_labels(records, where)


def _duplicates(records: Records, where: Where) -> Iterator[InputError]:
    names = [name for name in KEY if name in records]
    suspects = _alike(records, names)
    if not len(suspects):
        return
    key = records.take(suspects).keys()
    order = np.argsort(key, kind="stable")
    same = np.flatnonzero(key[order][1:] == key[order][:-1])
    if not len(same):
        return
    place = same[np.argmin(order[same + 1])]
    one, two = (int(suspects[order[at]]) for at in (place, place + 1))
    (earlier, first_line), (file, line) = where(one), where(two)
    first = f"line {first_line}" if earlier in (file, None) else f"{printable(earlier)}:{first_line}"
    yield InputError(
        f"the same record appears twice, first at {first}: ({', '.join(names)}) must be unique. "
        "Several answers to one item need a repeat, model, strategy or perturbation column",
        file=file,
        line=line,
        rows=len(same),
    )


def _alike(records: Records, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """The rows that may have the key of another row, in order; few that do not are among them."""
    key = fingerprints(records.column(names[0]))
    for name in names[1:]:
        key = mixed(key, fingerprints(records.column(name)))
    ordered = np.sort(key)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    return np.flatnonzero(np.isin(key, repeated, kind="sort")) if len(repeated) else np.zeros(0, np.int64)


def _other_labels(records: Records, where: Where) -> Iterator[InputError]:
    allowed = records.task.labels
    if allowed is None or "target" not in records:
        return
    target = records.labels("target")
    known = {label_key(label) for label in allowed}
    outside = np.array([label_key(v) not in known for v in target.values] + [False])
    rows = np.flatnonzero(outside[target.codes])
    if len(rows):
        file, line = where(int(rows[0]))
        said = "the target is not among the task's labels"
        yield InputError(said, file=file, line=line, field="target", rows=len(rows))
