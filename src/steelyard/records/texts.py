"""Columns of texts, as metrics read them: each distinct text once, and what is made of it kept for the table."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from steelyard.errors import InputError, printable
from steelyard.ground.arrays import Codes
from steelyard.records.labels import are_names
from steelyard.records.schema import SHOWN, kind_of

if TYPE_CHECKING:
    from steelyard.records.table import Records

T = TypeVar("T")
Kept = dict[tuple[Hashable, ...], Any]


class Texts:
    """A column of texts: `codes` into the distinct `values`, −1 where there is none.

    What is made of a text or of a pair of texts is made once per table, whatever its slices and resamples.
    """

    __slots__ = ("_kept", "codes", "values")

    def __init__(self, codes: Codes, values: tuple[str, ...], kept: Kept | None = None) -> None:
        self.codes, self.values = codes, values
        self._kept: Kept = {} if kept is None else kept

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        return self.codes < 0

    def text(self, row: int) -> str | None:
        """The text of a row."""
        code = int(self.codes[row])
        return None if code < 0 else self.values[code]

    def filled(self, rows: npt.NDArray[np.bool_], text: str) -> Texts:
        """The column with this text in these rows."""
        return Texts(np.where(rows, len(self.values), self.codes), (*self.values, text), self._kept)

    def made(self, what: Hashable, make: Callable[..., T], *given: str) -> T:
        """What `make` makes of these texts; `what` tells it from everything else that is made of them."""
        key = (what, *given)
        if key not in self._kept:
            self._kept[key] = make(*given)
        return self._kept[key]


def by_row(columns: Sequence[Texts], what: Hashable, make: Callable[..., T]) -> list[T | None]:
    """What `make` makes of the texts of every row, one of each column; None where a row lacks one of them."""
    if not len(columns[0]):
        return []
    rows, place = np.unique(np.stack([column.codes for column in columns], 1), axis=0, return_inverse=True)
    distinct: list[T | None] = [
        None
        if min(codes) < 0
        else columns[0].made(what, make, *(column.values[code] for column, code in zip(columns, codes, strict=True)))
        for codes in rows.tolist()
    ]
    return [distinct[i] for i in place.ravel().tolist()]


def texts_of(records: Records, name: str, *, needed_by: str = "this") -> Texts:
    """A column as texts; a list of texts stands for its members, one per line. Numbers are an error."""
    column = records.column(name, needed_by=needed_by)
    kind = kind_of(column)
    if kind == "null":
        return Texts(np.full(len(column), -1, np.int64), (), records.kept_of_texts)
    if kind == "list" and kind_of(column.flatten()) in ("text", "null"):
        lines = [None if each is None else "\n".join(text for text in each if text) for each in column.to_pylist()]
        column, kind = pa.array(lines, pa.string()), "text"
    if kind != "text":
        raise InputError(f"{needed_by} needs text; '{printable(name)}' holds {SHOWN[kind]}", file=records.name)
    encoded = column.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Texts(codes, tuple(encoded.dictionary.to_pylist()), records.kept_of_texts)


def holds_texts(records: Records) -> bool:
    """True if targets and predictions are free texts; labels that the task declares are none."""
    if records.task.labels is not None:
        return False
    columns = [name for name in ("target", "prediction") if name in records and kind_of(records.column(name)) == "text"]
    return not are_names(value for name in columns for value in records.labels(name).values)
