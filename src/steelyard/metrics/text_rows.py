"""Row scores of texts: what a metric of texts collects, with the breakdown of every row.

A row without an answer scores 0 and misses everything; a row without a reference has no score. What is made of a text
or a pair of texts is made once per table (`records.texts`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.evidence.sums import Terms, row_score
from steelyard.records.derive import ANSWERED
from steelyard.records.table import Records
from steelyard.records.texts import Texts, by_row
from steelyard.texts.breakdown import Breakdown
from steelyard.texts.entities import Findings, extractor
from steelyard.texts.lexicon import Entry
from steelyard.texts.lexicon import lexicon as lexicon_of


def scored(
    records: Records,
    reference: Texts,
    answer: Texts,
    what: Any,
    make: Callable[..., Breakdown],
    counted: Sequence[str] = (),
) -> Terms:
    """A row score of two texts; `what` tells it from other scores, `counted` are counts that are summed up too."""
    breakdowns = breakdowns_of(records, reference, answer, what, make)
    terms: dict[str, Any] = {name: numbers(breakdowns, name) for name in counted}
    empty = np.array([b is not None and b.score is None for b in breakdowns], bool)
    return row_score(scores(breakdowns), left_out={"no text": empty}, explained=breakdowns, **terms)


def breakdowns_of(
    records: Records, reference: Texts, answer: Texts, what: Any, make: Callable[..., Breakdown]
) -> list[Breakdown | None]:
    """How the score of every row came about; None where there is no reference."""
    silent = records.outcome != ANSWERED
    made = by_row((reference, answer.filled(silent, "")), what, make)
    return [_unanswered(b) if quiet else b for b, quiet in zip(made, silent.tolist(), strict=True)]


def _unanswered(breakdown: Breakdown | None) -> Breakdown | None:
    """Nothing was answered: the score is 0, even where there was nothing to say."""
    if breakdown is None:
        return None
    return Breakdown(
        metric=breakdown.metric,
        score=0.0,
        components=dict.fromkeys(breakdown.components, 0.0),
        counts=breakdown.counts,
        missed=breakdown.missed,
        remarks=("no answer",),
    )


def scores(breakdowns: Sequence[Breakdown | None]) -> Floats:
    """The score of every row, NaN where there is none."""
    return np.array([np.nan if b is None or b.score is None else b.score for b in breakdowns], np.float64)


def components(breakdowns: Sequence[Breakdown | None], name: str) -> Floats:
    """A component of every row, NaN where there is no score."""
    known = (None if b is None or b.score is None else b.components.get(name, 0.0) for b in breakdowns)
    return np.array([np.nan if value is None else value for value in known], np.float64)


def numbers(breakdowns: Sequence[Breakdown | None], name: str) -> Floats:
    """A count of every row."""
    return np.array([0 if b is None else b.counts.get(name, 0) for b in breakdowns], np.float64)


def filled_with(size: int, text: str, records: Records) -> Texts:
    """A column that holds one text in every row."""
    return Texts(np.zeros(size, np.int64), (text,), records.kept_of_texts)


def unscored(breakdowns: Sequence[Breakdown | None]) -> Mask:
    """The rows that have texts, and no score."""
    return np.array([b is not None and b.score is None for b in breakdowns], bool)


# -- lexicons ----------------------------------------------------------------------------------------------------------


class Entities:
    """The findings of texts under the lexicon of a table, each made once."""

    def __init__(self, records: Records, digest: str) -> None:
        self._extractor = extractor(records.task.lexicon)
        self._texts, self._digest = filled_with(0, "", records), digest

    def of(self, text: str) -> Findings:
        return self._texts.made(("findings", self._digest), self._extractor.findings, text)

    def with_entries(self, text: str, also: Sequence[Entry]) -> Findings:
        """The findings, of entries too that the lexicon does not have."""
        unknown = [entry for entry in also if self._extractor.lexicon.of(entry.category, entry.name) is None]
        return self._extractor.findings(text, unknown) if unknown else self.of(text)


def _known(table: Records) -> dict[str, Any]:
    return {"lexicon": lexicon_of(table.task.lexicon).digest}


def _agreed(summaries: Sequence[Any]) -> dict[str, Any]:
    if len({summary["lexicon"] for summary in summaries}) > 1:
        raise UsageError("the runs were read with different lexicons; read both with the same `lexicon=`")
    return dict(summaries[0])


# what a metric is defined with that knows its lexicon: runs that were read with different ones differ
READS_LEXICON: dict[str, Any] = {"summary": _known, "merge": _agreed}


def checked_weights(metric: str, weights: Sequence[Any], names: Sequence[str]) -> tuple[float, ...]:
    """Weights as numbers; an error where they are too few, negative or all 0."""
    right = [isinstance(w, int | float) and not isinstance(w, bool) and 0 <= w < float("inf") for w in weights]
    if len(weights) != len(names) or not all(right) or not sum(weights):
        raise UsageError(f"{metric}: weights are {len(names)} numbers, at least 0 and not all 0: {', '.join(names)}")
    return tuple(map(float, weights))
