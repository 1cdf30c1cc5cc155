"""Rules of a whole table: every row has its cluster, no record appears twice, every target is among the labels.

Two ids that look alike are one id that was written in two ways, and a row too many: invisible characters, white space
around them, accents put together in another way.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc

from steelyard.errors import InputError, printable
from steelyard.records.fingerprints import fingerprints, mixed
from steelyard.records.labels import label_key
from steelyard.records.schema import KEY, Where, kind_of

if TYPE_CHECKING:
    from steelyard.records.table import Records

_SUSPECT = r"[^\x20-\x7e]|^\s|\s$"  # whatever is not plain letters, digits and signs, with blanks between them only


def breaches(records: Records, cluster: str | None, where: Where) -> Iterator[InputError]:
    """What breaks a rule of the whole table: clusters that are missing, records that appear twice, other labels."""
    if cluster is not None and records.column(cluster).null_count:
        bad = pc.is_null(records.column(cluster))
        file, line = where(int(pc.index(bad, True).as_py()))
        rows = int(pc.sum(bad).as_py())
        yield InputError("every row needs its cluster", file=file, line=line, field=cluster, rows=rows)
    yield from _duplicates(records, where)
    for name in dict.fromkeys(("item", *records.cluster_columns)):
        yield from _lookalikes(records, name, where)
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


def _lookalikes(records: Records, name: str, where: Where) -> Iterator[InputError]:
    """Ids that differ only in what nobody sees."""
    column = records.column(name)
    if kind_of(column) != "text" or not pc.any(pc.match_substring_regex(column, _SUSPECT)).as_py():
        return
    values: list[str] = [value for value in pc.unique(column).to_pylist() if value is not None]
    seen: dict[str, str] = {}
    for value in values:
        other = seen.setdefault(_visible(value), value)
        if other == value:
            continue
        (file, first), (_, second) = (where(int(pc.index(column, each).as_py())) for each in (other, value))
        yield InputError(
            f"looks like the one of line {first}, but is another: they differ only in invisible characters, in white "
            "space around them, or in how accents are put together; write them alike",
            file=file,
            line=second,
            field=name,
        )
        return


def _visible(text: str) -> str:
    """A text as people see it."""
    shown = "".join(" " if c.isspace() else c for c in text if not _is_invisible(c))
    return unicodedata.normalize("NFC", shown).strip()


def _is_invisible(character: str) -> bool:
    hidden = unicodedata.category(character) in ("Cf", "Cc") and not character.isspace()
    return hidden or "\ufe00" <= character <= "\ufe0f" or character in "\u034f\u115f\u1160\u3164"


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
