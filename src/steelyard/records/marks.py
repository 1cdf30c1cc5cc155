"""Marks next to labels: what whoever scored the answers says is right, where the labels say otherwise."""

from __future__ import annotations

import numpy as np

from steelyard.errors import counted
from steelyard.records.cautions import Caution
from steelyard.records.derive import ANSWERED
from steelyard.records.schema import kind_of
from steelyard.records.table import Records

_CLOSED = 2  # different answers for each target, up to which they are labels
_NAMES = 50  # labels beyond which targets are texts, that may be right in other words


def contradicting_marks(records: Records) -> tuple[Caution, ...]:
    """A caution where a right label is marked as wrong, or the label of other rows as right.

    >>> rows = {"item": [1, 2], "target": ["a", "b"], "prediction": ["a", "a"], "mark": [1, 1]}
    >>> contradicting_marks(Records.from_columns(rows))[0].text
    '1 of 2 marks contradicts the labels next to it'
    """
    columns = [name for name in ("mark", "target", "prediction") if name in records.stated]
    if len(columns) < 3 or any(kind_of(records.column(name)) in ("null", "list") for name in columns):
        return ()
    if len({kind_of(records.column(name)) for name in ("target", "prediction")}) > 1:
        return ()  # they never match
    marks, targets, predictions = records.stated_numbers("mark"), records.labels("target"), records.labels("prediction")
    names = {*targets.values} if len(targets.values) <= _NAMES else set()
    is_name = np.array([*(value in names for value in predictions.values), False], bool)[predictions.codes]
    both = (records.outcome == ANSWERED) & ~targets.missing & ~predictions.missing & ~np.isnan(marks)
    equal = targets == predictions
    right = both & (marks == 1)
    given = {_folded(predictions.values[code]) for code in np.unique(predictions.codes[both])}
    if 2 * (right & equal).sum() >= right.sum() and len(given) <= _CLOSED * len(names):
        # labels that are compared to the letter: what is marked right in other words is none of them
        known = {_folded(value) for value in names}
        is_name |= np.array([*(_folded(v) not in known for v in predictions.values), False], bool)[predictions.codes]
    wrong = int((both & ((equal & (marks == 0)) | (~equal & (marks == 1) & is_name))).sum())
    if not wrong:
        return ()
    them = "contradicts the labels next to it" if wrong == 1 else "contradict the labels next to them"
    return (Caution("marks", f"{wrong:,} of {counted(int(both.sum()), 'mark')} {them}", wrong / len(records)),)


def _folded(value: object) -> str:
    return str(value).strip(" .,;:!*\"'()").casefold()
