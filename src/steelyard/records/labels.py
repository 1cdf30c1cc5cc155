"""Labels: a column of names, dictionary-encoded, compared with care for kinds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import ne
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError
from steelyard.ground.arrays import Codes
from steelyard.records.schema import kind_of

_NARROW = 100_000  # a range of whole numbers this small needs no dictionary
_LONGEST_NAME, _MOST_WORDS = 60, 5  # characters and words of one label
_MOST_NAMES = 100  # different labels, where some have several words


def are_names(labels: Iterable[Any]) -> bool:
    """True if these are names of classes, which may be shown; false if they are texts, which may be about people.

    Names are short, none of more than 60 characters or 5 words; and there are at most 100, unless each is one word.

    >>> are_names(["yes", "no"]), are_names(["yes", "Seen on Monday with a cough and fever"])
    (True, False)
    """
    known = {str(label) for label in labels}
    most = max((len(label.split()) for label in known), default=0)
    few = len(known) <= _MOST_NAMES or most <= 1
    return few and most <= _MOST_WORDS and all(len(label) <= _LONGEST_NAME for label in known)


class Labels:
    """A column of labels, dictionary-encoded: `codes` into `values`, −1 where null.

    Compares like an array of its labels: `target == prediction` is one boolean per row, false where either is null.
    """

    __slots__ = ("codes", "values")

    def __init__(self, codes: Codes, values: tuple[Any, ...]) -> None:
        self.codes, self.values = codes, values

    def __len__(self) -> int:
        return len(self.codes)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return np.array([*self.values, None], dtype=object)[self.codes]

    def __getitem__(self, rows: Any) -> Labels:
        return Labels(self.codes[rows], self.values)

    def __eq__(self, other: object) -> npt.NDArray[np.bool_]:  # type: ignore[override]
        if not isinstance(other, Labels):
            place = next((i for i, v in enumerate(self.values) if same_label(v, other)), -2)
            return self.codes == place
        index = {label_key(v): i for i, v in enumerate(self.values)}
        lookup = np.array([*(index.get(label_key(v), -2) for v in other.values), -2])
        return self.codes == lookup[other.codes]

    def __ne__(self, other: object) -> npt.NDArray[np.bool_]:  # type: ignore[override]
        return ~(self == other)

    def differs(self, other: Labels) -> npt.NDArray[np.bool_]:
        """Where the two differ; two nulls do not."""
        return (self != other) & ~(self.missing & other.missing)

    __hash__ = None  # type: ignore[assignment]

    @property
    def missing(self) -> npt.NDArray[np.bool_]:
        return self.codes < 0


def label_key(label: Any) -> tuple[str, Any]:
    """What makes two labels one: numbers meet by value (1 and 1.0), text, numbers and booleans never meet."""
    if isinstance(label, bool):
        return "truth", label
    return ("number" if isinstance(label, int | float) else "text"), label


def same_label(a: object, b: object) -> bool:
    """Equal and of one kind: 1 is 1.0, 1 is not true, "1" is not 1."""
    return label_key(a) == label_key(b)


def value_of(labels: Labels, row: int) -> Any:
    """The label of a row; the text "none" where there is none, and "no value" if another row says "none"."""
    code = int(labels.codes[row])
    return null_name(labels) if code < 0 else labels.values[code]


def null_name(labels: Labels) -> str:
    """What rows without a label are called among those that have one."""
    return "none" if "none" not in labels.values else "no value"


def value_name(value: object) -> str:
    """A column value as it is written in a slice or on a command line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(_whole(value) if isinstance(value, float) else value)


def is_named(value: object, text: str) -> bool:
    """True if a label is meant by a text: its own, or for numbers any spelling of the same value (1 and 1.0)."""
    if value_name(value) == text:
        return True
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return float(text) == value
    except ValueError:
        return False


def _whole(number: float) -> float | int:
    """The number as a whole one where it is one: a column with nulls often turns 1 into 1.0."""
    return int(number) if number.is_integer() else number


def by_text(labels: Labels) -> Labels:
    """The same labels with their values in the order of their text: 10 before 9, as "10" sorts before "9"."""
    if not labels.values or isinstance(labels.values[0], str):
        return labels
    order = np.argsort(np.array([value_name(v) for v in labels.values]), kind="stable")
    if (order == np.arange(len(order))).all():
        return labels
    place = np.empty(len(order) + 1, np.int64)
    place[order] = np.arange(len(order))
    place[-1] = -1
    return Labels(frozen(place[labels.codes]), tuple(labels.values[i] for i in order.tolist()))


def ranked(column: Sequence[Any], key: Callable[[Any], Any]) -> Labels:
    """Values and nulls as labels, their values in the order of `key`."""
    given = np.array([value is not None for value in column], bool)
    codes = np.full(len(column), -1)
    values, codes[given] = _in_order([value for value in column if value is not None], key)
    return Labels(codes, values)


def together(mine: Labels, theirs: Labels, key: Callable[[Any], Any]) -> Labels:
    """One column of labels after another, on one list of values in the order of `key`."""
    if mine.values is theirs.values:
        return Labels(np.concatenate([mine.codes, theirs.codes]), mine.values)
    values, place = _in_order([*mine.values, *theirs.values], key)
    places = np.split(place, [len(mine.values)])
    both = zip(places, (mine, theirs), strict=True)
    return Labels(np.concatenate([np.append(own, -1)[part.codes] for own, part in both]), values)


def _in_order(values: list[Any], key: Callable[[Any], Any]) -> tuple[tuple[Any, ...], Codes]:
    """The different values in the order of `key`, and the place there of each; values of one key are one.

    Texts alone are in their own order, whatever else a key looks at. Two lists in order, one after the other, are only
    merged by sorting them.
    """
    keys = values if set(map(type, values)) <= {str} else list(map(key, values))
    order = sorted(range(len(values)), key=keys.__getitem__)
    sorted_keys = list(map(keys.__getitem__, order))
    first = np.fromiter(map(ne, sorted_keys, [object(), *sorted_keys]), bool, len(values))
    at = np.array(order, np.int64)
    place = np.empty(len(values), np.int64)
    place[at] = np.cumsum(first) - 1
    return tuple(map(values.__getitem__, at[first].tolist())), place


def encode(column: pa.Array) -> Labels:
    kind = kind_of(column)
    if kind == "null":
        return Labels(np.full(len(column), -1, np.int64), ())
    if kind == "list":
        raise InputError("a column of lists cannot be grouped, filtered or compared")
    if kind == "int" and not column.null_count:
        numbers = column.to_numpy()
        low, high = (int(numbers.min()), int(numbers.max())) if len(numbers) else (0, 0)
        if high - low < _NARROW:
            return _encode_narrow(numbers, low, high)
    if kind == "float":
        column = pc.add(column, 0.0)  # −0.0 and 0.0 are one value
    encoded = column.dictionary_encode()
    order = pc.sort_indices(encoded.dictionary.cast(pa.int8()) if kind == "bool" else encoded.dictionary)
    values = encoded.dictionary.take(order)
    place = np.empty(len(order) + 1, np.int64)
    place[order.to_numpy()] = np.arange(len(order))
    place[-1] = -1
    codes = pc.fill_null(encoded.indices, len(order)).to_numpy(zero_copy_only=False)
    named = values.to_pylist()
    return Labels(frozen(place[codes]), tuple(map(_whole, named) if kind == "float" else named))


def _encode_narrow(numbers: npt.NDArray[np.int64], low: int, high: int) -> Labels:
    """Whole numbers in a narrow range need no dictionary."""
    shifted = numbers - low if low else numbers
    seen = np.flatnonzero(np.bincount(shifted, minlength=high - low + 1))
    if len(seen) == high - low + 1:
        return Labels(frozen(shifted), tuple(range(low, high + 1)))
    place = np.zeros(high - low + 1, np.int64)
    place[seen] = np.arange(len(seen))
    return Labels(frozen(place[shifted]), tuple((seen + low).tolist()))


def frozen(array: Any) -> Any:
    if isinstance(array, np.ndarray):
        array = array.view()
        array.flags.writeable = False
    return array
