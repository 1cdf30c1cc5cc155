"""Labels as people write them: white space around them, other cases, a full stop, and texts that mean no answer.

    exact   labels are what was written
    strip   white space around a text is removed, counted and said
    fold    the same, and capital letters and a final full stop make no difference: labels are spelt as the task's are,
            else in small letters, so that two tables spell them alike

A prediction that is one of the `abstain` texts means that the model declined, one of `unparsed` that its reply could
not be read. They are compared as labels are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import UsageError, counted, printable
from steelyard.ground.arrays import Mask
from steelyard.records.labels import encode, is_named
from steelyard.records.reading import Labelling
from steelyard.records.schema import kind_of, text_array

Column = Any  # an Arrow array

BLANK = r"[\s\x0b\x{a0}\x{feff}]"  # what counts as white space around a value
_EDGES = re.compile(r"^[ \t\n\f\r\x0b\xa0\ufeff]+|[ \t\n\f\r\x0b\xa0\ufeff]+\Z")
_LAST = (0x20, 0xA0, 0xBF)  # the last byte of any text that ends in one: up to a blank, or of U+00A0 and U+FEFF
_FIRST = (0x20, 0xC2, 0xEF)


@dataclass(frozen=True, kw_only=True)
class LabelRules:
    """How labels are compared, and which predictions are no answers."""

    labels: Labelling = "strip"
    abstain: tuple[str, ...] = ()
    unparsed: tuple[str, ...] = ()
    spelling: tuple[str, ...] = ()  # labels as they are to be spelt

    def __post_init__(self) -> None:
        if self.labels not in get_args(Labelling):
            raise UsageError(f"`labels=` is one of {', '.join(get_args(Labelling))}")
        both = {self.key(text) for text in self.abstain} & {self.key(text) for text in self.unparsed}
        if both:
            raise UsageError("a text stands for declining and for an unread reply: it is in `abstain=` and `unparsed=`")

    def key(self, text: str) -> str:
        """What makes two texts one label."""
        if self.labels == "exact":
            return text
        stripped = _EDGES.sub("", text)
        return stripped if self.labels == "strip" else _folded(stripped)

    def outcome_of(self, text: str) -> str | None:
        """The outcome that a predicted text stands for, None where it is an answer."""
        if not (self.abstain or self.unparsed):
            return None
        key = self.key(text)
        if any(self.key(each) == key for each in self.abstain):
            return "abstained"
        return "unparsed" if any(self.key(each) == key for each in self.unparsed) else None

    def no_answers(self, prediction: Column) -> dict[str, Mask]:
        """The rows whose prediction stands for an outcome, by that outcome."""
        if not (self.abstain or self.unparsed) or kind_of(prediction) in ("null", "list"):
            return {}
        labels = encode(prediction)
        outcomes = [self._meant(value) for value in labels.values]
        masks = {}
        for outcome in ("abstained", "unparsed"):
            named = np.array([*(each == outcome for each in outcomes), False])
            if named.any():
                masks[outcome] = named[labels.codes]
        return masks

    def _meant(self, value: Any) -> str | None:
        if isinstance(value, str):
            return self.outcome_of(value)
        named = (("abstained", self.abstain), ("unparsed", self.unparsed))
        return next((outcome for outcome, given in named if any(is_named(value, text) for text in given)), None)


def _folded(text: str) -> str:
    return text.removesuffix(".").rstrip().casefold()


def stripped(column: Column, *, leave_blank: bool = False) -> tuple[Column, int]:
    """A column of text without white space around its values, and how many had any.

    `leave_blank` leaves what is nothing else, as of an id: it would be the same as none.
    """
    edged = _edged(column)
    if leave_blank and edged.any():
        rows = np.flatnonzero(edged)
        edged[rows] = [bool(_EDGES.sub("", text or "")) for text in column.take(pa.array(rows)).to_pylist()]
    count = int(edged.sum())
    if not count:
        return column, 0
    rows = pa.array(np.flatnonzero(edged))
    values = [_EDGES.sub("", text or "") for text in column.take(rows).to_pylist()]
    return pc.replace_with_mask(column, pa.array(edged), text_array(values).cast(column.type)), count


def _edged(column: Column) -> Mask:
    """The rows whose text begins or ends with white space; the bytes at its ends tell most that do not."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    _, offsets_buffer, data_buffer = column.buffers()
    size = np.int64 if pa.types.is_large_string(column.type) else np.int32
    offsets = np.frombuffer(offsets_buffer, size)[column.offset : column.offset + len(column) + 1]
    edged = np.zeros(len(column), bool)
    if data_buffer is None:
        return edged
    data = np.frombuffer(data_buffer, np.uint8)
    rows = np.flatnonzero(np.diff(offsets))
    first, last = data[offsets[:-1][rows]], data[offsets[1:][rows] - 1]
    maybe = rows[(first <= _FIRST[0]) | np.isin(first, _FIRST[1:]) | (last <= _LAST[0]) | np.isin(last, _LAST[1:])]
    if len(maybe):
        suspects = column.take(pa.array(maybe)).to_pylist()
        edged[maybe] = [text is not None and _EDGES.search(text) is not None for text in suspects]
    return edged


def labelled(
    columns: Mapping[str, Column], rules: LabelRules, names: Iterable[str], met: Mapping[str, Mask]
) -> tuple[dict[str, Column], list[str]]:
    """The columns with labels as the rules say, and what was done to them in words.

    `names` are the columns that are read, `met` the rows whose prediction a reader found to stand for an outcome.
    """
    done: dict[str, Column] = dict(columns)
    said: list[str] = []
    if rules.labels != "exact":
        for name in names:
            if name in done and kind_of(done[name]) == "text":
                done[name], count = stripped(done[name], leave_blank=name == "cluster")
                if count:
                    said.append(removed(name, count))
    if "prediction" in done:
        own = rules.no_answers(done["prediction"])
        none = np.zeros(len(done["prediction"]), bool)
        masks = {outcome: met.get(outcome, none) | own.get(outcome, none) for outcome in {**met, **own}}
        outcomes, remarks = _with_outcomes(done, masks)
        done |= outcomes
        said += remarks
    if rules.labels == "fold":
        folded, note = _spelt_alike(done, rules.spelling)
        done |= folded
        said += note
    return done, said


def removed(name: str, count: int) -> str:
    """That white space was removed."""
    return f"white space around {counted(count, 'value')} of '{printable(name)}' was removed; `labels=exact` keeps it"


def taken(outcome: str, count: int) -> str:
    """That predictions stand for an outcome."""
    option = "abstain" if outcome == "abstained" else "unparsed"
    count_ = "counts" if count == 1 else "count"
    return f"{counted(count, 'prediction')} {count_} as {outcome}: the text is one of `{option}=`"


def _with_outcomes(columns: Mapping[str, Column], masks: Mapping[str, Mask]) -> tuple[dict[str, Column], list[str]]:
    """Prediction and outcome, where some predictions stand for an outcome, and how many rows that changed in words."""
    outcome = columns.get("outcome")
    if not masks or (outcome is not None and kind_of(outcome) not in ("text", "null")):
        return {}, []
    prediction = columns["prediction"]
    if outcome is None or kind_of(outcome) == "null":
        outcome = pa.nulls(len(prediction), pa.string())
    open_ = pc.or_(pc.is_null(outcome), pc.fill_null(pc.equal(outcome, pa.scalar("answered", outcome.type)), False))
    said = []
    for name, mask in masks.items():
        meant = pc.and_(pa.array(mask), open_)  # another outcome that was stated wins
        count = int(pc.sum(meant).as_py() or 0)
        said += [taken(name, count)] if count else []
        prediction = pc.if_else(meant, pa.scalar(None, prediction.type), prediction)
        outcome = pc.if_else(meant, pa.scalar(name, outcome.type), outcome)
    return {"prediction": prediction, "outcome": outcome}, said


def _spelt_alike(columns: Mapping[str, Column], spelling: Iterable[str]) -> tuple[dict[str, Column], list[str]]:
    """Targets and predictions in one spelling each: as given, else in small letters without a final full stop."""
    named = {_folded(text): text for text in spelling}
    done, said = {}, []
    for name in ("target", "prediction"):
        if name not in columns or kind_of(columns[name]) != "text":
            continue
        encoded = columns[name].dictionary_encode()
        before = encoded.dictionary.to_pylist()
        after = [named.get(_folded(text or ""), _folded(text or "")) for text in before]
        codes = pc.fill_null(encoded.indices, len(before)).to_numpy(zero_copy_only=False)
        if before != after:
            done[name] = text_array([*after, None]).take(pa.array(codes))
        merged = len(set(before)) - len(set(after))
        if merged:
            spellings, labels = len(set(before)), len(set(after))
            said.append(
                f"{spellings:,} spellings in '{name}' are {counted(labels, 'label')}, case and full stops aside"
            )
    return done, said
