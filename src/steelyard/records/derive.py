"""What follows from the columns that came in: outcome, correctness, losses, and the unperturbed partner of a row.

Each is derived once and in one place, so that every metric counts the same rows the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import InputError, UsageError
from steelyard.ground.arrays import Floats
from steelyard.records.schema import KEY, OUTCOMES, SHOWN, UNPERTURBED, is_group, is_score, kind_of
from steelyard.registry import Registry

if TYPE_CHECKING:
    from steelyard.records.labels import Labels
    from steelyard.records.table import Records

ANSWERED, ABSTAINED, UNPARSED, FAILED = range(4)
NUMBERS = ("int", "float")  # kinds of columns whose values compare by value


def outcome_codes(records: Records) -> npt.NDArray[np.int8]:
    """One of the four outcomes per row, as an index into OUTCOMES.

    A stated outcome wins. Without one, a null prediction means abstained where the table has a prediction column;
    a table without one holds row scores of another tool and is all answered.
    """
    implied = np.zeros(len(records), np.int8)  # ANSWERED
    if "prediction" in records and records.column("prediction").null_count:
        implied[_null(records.column("prediction"))] = ABSTAINED
    if "outcome" not in records or kind_of(records.column("outcome")) == "null":
        return implied
    stated = pc.fill_null(pc.index_in(records.column("outcome"), pa.array(OUTCOMES)), -1).to_numpy()
    return np.where(stated >= 0, stated, implied).astype(np.int8)


def correct(records: Records) -> Floats:
    """1 where an answer equals its target, 0 where it does not or none was given, NaN without a target.

    Where whoever scored the answers left a `mark`, that counts; where there is nothing to compare, `correct` does.
    """
    if "mark" in records.stated:
        return _stated_correct(records, "mark")
    if "correct" in records.stated and not {"target", "prediction"} <= set(records.stated):
        return _stated_correct(records, "correct")
    target, prediction = records.column("target"), records.column("prediction")
    same_kind(records)
    kinds = {kind_of(target), kind_of(prediction)}
    if "null" in kinds:
        equal = np.zeros(len(records))
    elif len(kinds) > 1:  # whole numbers and decimals: by value, with every digit
        equal = (records.labels("target") == records.labels("prediction")).astype(float)
    else:
        equal = pc.fill_null(pc.equal(target, prediction), False).to_numpy(zero_copy_only=False).astype(float)
    silent = records.outcome != ANSWERED
    if silent.any():
        equal[silent] = 0.0
    if target.null_count:
        equal[_null(target)] = np.nan
    return equal


def _stated_correct(records: Records, name: str) -> Floats:
    scores = np.where(records.array("answered") == 1, records.stated_numbers(name), 0.0)
    if name == "mark":
        scores[_unmarked(records)] = np.nan
    if not np.isin(scores[~np.isnan(scores)], (0.0, 1.0)).all():
        raise InputError("holds other values than true and false", field=name, file=records.name)
    return scores


def _unmarked(records: Records) -> npt.NDArray[np.bool_]:
    """The rows that were scored and not marked: there, nothing is right or wrong. All rows, where nobody marked any.

    It depends on the row alone, so that the slices of a table add up to it.
    """
    mark = records.column("mark")
    if kind_of(mark) == "null":
        return np.ones(len(records), bool)
    scored = np.zeros(len(records), bool)
    for score in (records.column(name) for name in records.stated if is_score(name)):
        if kind_of(score) in NUMBERS:
            scored |= ~_null(score)
    return _null(mark) & scored


def same_kind(records: Records) -> None:
    """Refuse to match labels of different kinds: "1", 1 and true are three labels; 1 and 1.0 are one."""
    kinds = {name: kind_of(records.column(name)) for name in ("target", "prediction")}
    if "list" in kinds.values():
        raise InputError("lists are not labels", file=records.name)
    if "null" not in kinds.values() and len({"number" if k in NUMBERS else k for k in kinds.values()}) > 1:
        raise InputError(
            f"target holds {SHOWN[kinds['target']]} and prediction {SHOWN[kinds['prediction']]}; labels of different "
            "kinds never match. Write both columns the same way",
            file=records.name,
        )


@dataclass(frozen=True)
class Loss:
    """How wrong an answer is. `numeric` losses need numbers and may need the width of the score's range."""

    name: str
    definition: str
    numeric: bool
    function: Callable[[Floats, Floats, float], Floats]


losses: Registry[Loss] = Registry("loss")
for _loss in (
    Loss("zero_one", "0 if prediction = target, else 1", False, lambda t, p, _: (t != p).astype(float)),
    Loss("abs", "abs(prediction - target)", True, lambda t, p, _: np.abs(p - t)),
    Loss("abs_norm", "abs(prediction - target) / range", True, lambda t, p, width: np.abs(p - t) / width),
):
    losses.add(_loss.name, _loss)


def loss_name(records: Records, asked: str | None) -> str:
    """The loss to use: the one asked for, else zero_one for labels and abs for numbers."""
    if asked is not None:
        return losses[asked].name
    if records.task.labels is not None or "target" not in records or "mark" in records.stated:
        return "zero_one"
    return "abs" if records.is_numeric("target") else "zero_one"


def loss_values(records: Records, name: str, width: float | None) -> Floats:
    """The loss of every answered row with a target, NaN elsewhere."""
    loss = losses[name]
    silent = records.outcome != ANSWERED
    if not loss.numeric:
        values = 1.0 - records.array("correct")
        values[silent] = np.nan
        return values
    if name == "abs_norm" and width is None:
        raise UsageError("the loss abs_norm needs the width of the score range: range=3, or `range` in the task file")
    target, prediction = records.numbers("target"), records.numbers("prediction")
    return np.where(silent, np.nan, loss.function(target, prediction, width or 1.0))


def has_target(records: Records) -> npt.NDArray[np.bool_]:
    """The rows of which it is known what is right: they have a mark, or a target; without either column, all.

    A row without an answer needs no mark of its own, unless it was scored otherwise.
    """
    if "mark" in records.stated:
        return (~_null(records.column("mark")) | (records.outcome != ANSWERED)) & ~_unmarked(records)
    return ~_null(records.column("target")) if "target" in records else np.ones(len(records), bool)


def with_reference(records: Records) -> Records:
    """The records with `reference.*` columns: what the unperturbed partner of each row has there.

    Joined on the whole table before any split, so that terms may look only at their own row. A row without a
    partner, and an unperturbed row itself, has nulls there.
    """
    if "perturbation" not in records or "reference.outcome" in records:
        return records
    original = records.is_unperturbed()
    rows = np.flatnonzero(original)
    parts = [records.codes(name) for name in KEY if name in records and name != "perturbation"]
    key = combine(parts, len(records))
    order = rows[np.argsort(key[rows], kind="stable")]
    place = np.searchsorted(key[order], key)
    has_partner = (place < len(order)) & ~original
    has_partner[has_partner] = key[order[place[has_partner]]] == key[has_partner]
    partner = np.where(has_partner, order[np.minimum(place, len(order) - 1)] if len(order) else 0, -1)
    take = pa.array(np.maximum(partner, 0), mask=partner < 0)
    added = {"reference.outcome": pa.array(np.array(OUTCOMES, dtype=object)[records.outcome]).take(take)}
    for name in records.stated:
        if name not in (*KEY, "cluster", "outcome") and not is_group(name):
            added[f"reference.{name}"] = records.column(name).take(take)
    return records.with_columns(added)


def unperturbed_as_null(column: pa.Array) -> pa.Array:
    """The column with null for every spelling of "as it is", so that the originals are one cell."""
    if kind_of(column) != "text":
        return column
    original = pc.is_in(column, pa.array(UNPERTURBED))
    return pc.if_else(original, pa.scalar(None, column.type), column) if pc.any(original).as_py() else column


def combine(parts: list[npt.NDArray[np.int64]], n: int) -> npt.NDArray[np.int64]:
    """One integer per row for a tuple of codes; equal tuples, and only those, share it. Order follows the tuple's."""
    key = np.zeros(n, np.int64)
    for codes in parts:
        size = int(codes.max(initial=-1)) + 2
        if int(key.max(initial=0)) > (2**62) // size:
            key = np.unique(key, return_inverse=True)[1].astype(np.int64)
        key = key * size + codes + 1
    return key


def key_codes(records: Records, name: str) -> npt.NDArray[np.int64]:
    """Codes for a uniqueness key; need not be sorted, so cheaper than `codes`."""
    encoded = records.column(name).dictionary_encode()
    return pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _null(column: pa.Array) -> npt.NDArray[np.bool_]:
    return column.is_null().to_numpy(zero_copy_only=False)


def _flag(code: int) -> Callable[[Records], Floats]:
    return lambda records: (records.outcome == code).astype(float)


DERIVED: Mapping[str, Callable[[Records], Floats | Labels]] = {
    "answered": _flag(ANSWERED),
    "abstained": _flag(ABSTAINED),
    "unparsed": _flag(UNPARSED),
    "failed": _flag(FAILED),
    "correct": correct,
}


def floats(column: pa.Array) -> Floats:
    """A column of numbers or nothing as floats, NaN where null."""
    if kind_of(column) == "null":
        return np.full(len(column), np.nan)
    return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
