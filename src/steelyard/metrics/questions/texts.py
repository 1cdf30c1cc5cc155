"""How much of a reference does a free text say, and does it say anything that is not so?

Scores of texts are row scores with a breakdown each: `sy.explain(metric, target, prediction)` shows one. Declining and
unreadable replies score 0. What counts as an entity, and in which context, is in docs/texts.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats, Mask
from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.sums import Cells, Terms, row_score
from steelyard.metrics.options import Constant
from steelyard.records.derive import ANSWERED
from steelyard.records.table import Records
from steelyard.records.texts import Texts, by_row, texts_of
from steelyard.texts.breakdown import Breakdown
from steelyard.texts.clinical import WEIGHTS, entity_agreement
from steelyard.texts.entities import Findings, extractor
from steelyard.texts.lexicon import CATEGORIES
from steelyard.texts.lexicon import lexicon as lexicon_of

_WEIGHTS = tuple(WEIGHTS[category] for category in CATEGORIES)
_COUNTED = ("matched", "missed", "extra")


@metric(
    better="higher",
    bounds=(0, 1),
    reads=("target", "prediction"),
    texts=True,
    formula="Σ_c w_c·|∩_c| / Σ_c w_c·|∪_c| over the entities of each category c",
)
def clinical_accuracy(records: Records, *, weights: tuple[float, ...] = _WEIGHTS, lexicon: Constant) -> Terms:
    """Share of the clinical entities of both texts that they have in common, weighted by category.

    The weights are those of diagnoses, treatments, medications, symptoms and labs, in this order. A denied entity is
    one thing and an asserted one another; what only one text denies does not count. Without any entity, texts agree if
    they are equal after normalisation or one is a run of the other's words.

    >>> value("clinical_accuracy", target=["pneumonia with fever"], prediction=["Pneumonia, afebrile"])
    0.75
    """
    if len(weights) != len(CATEGORIES) or not all(_is_weight(w) for w in weights) or not sum(weights):
        raise UsageError(f"weights are five numbers, at least 0 and not all 0: of {', '.join(CATEGORIES)}")
    found = Entities(records, lexicon)

    def agreement(reference: str, answer: str) -> Breakdown:
        return entity_agreement(found.of(reference), found.of(answer), weights)

    names = (*_COUNTED, *(f"{c} {what}" for c in CATEGORIES for what in ("matched", "in either")))
    return scored(
        records,
        texts_of(records, "target"),
        texts_of(records, "prediction"),
        ("agreement", weights, lexicon),
        agreement,
        names,
    )


@clinical_accuracy.detail
def _(s: Cells) -> dict[str, Any]:
    """How many entities matched, were missed, were extra; and of each category the share that matched."""
    counts = {name: int(getattr(s, name)[0]) for name in _COUNTED}
    shares = {c: _share(getattr(s, f"{c} matched")[0], getattr(s, f"{c} in either")[0]) for c in CATEGORIES}
    return {**counts, "by_category": shares}


class Entities:
    """The findings of texts under the lexicon of a table, each made once."""

    def __init__(self, records: Records, digest: str) -> None:
        self._extractor = extractor(records.task.lexicon)
        self._texts, self._digest = Texts(np.zeros(0, np.int64), (), records.kept_of_texts), digest

    def of(self, text: str) -> Findings:
        return self._texts.made(("findings", self._digest), self._extractor.findings, text)


def lexicon_known(table: Records) -> dict[str, Any]:
    """Which lexicon a table is read with: runs that were read with different ones cannot be compared."""
    return {"lexicon": lexicon_of(table.task.lexicon).digest}


def lexicon_agreed(summaries: Sequence[Any]) -> dict[str, Any]:
    known = {summary["lexicon"] for summary in summaries}
    return {
        "lexicon": summaries[0]["lexicon"],
        **({} if len(known) == 1 else {"undefined": "the runs were read with different lexicons"}),
    }


clinical_accuracy.summary(lexicon_known)
clinical_accuracy.merge(lexicon_agreed)


def scored(
    records: Records,
    reference: Texts,
    answer: Texts,
    what: Any,
    make: Callable[..., Breakdown],
    counted: Sequence[str] = (),
) -> Terms:
    """A row score of two texts: 0 without an answer, nothing without a reference."""
    silent = records.outcome != ANSWERED
    breakdowns = by_row((reference, answer.filled(silent, "")), what, make)
    score = np.where(silent & ~reference.missing, 0.0, scores(breakdowns))
    terms: dict[str, Any] = {name: numbers(breakdowns, name) for name in counted}
    return row_score(score, explained=explained(breakdowns, silent), **terms)


def scores(breakdowns: Sequence[Breakdown | None]) -> Floats:
    """The score of every row, NaN where there is none."""
    return np.array([np.nan if b is None or b.score is None else b.score for b in breakdowns], np.float64)


def numbers(breakdowns: Sequence[Breakdown | None], name: str) -> Floats:
    """A count of every row."""
    return np.array([0 if b is None else b.counts.get(name, 0) for b in breakdowns], np.float64)


def explained(breakdowns: Sequence[Breakdown | None], silent: Mask) -> list[Breakdown | None]:
    """The breakdowns, with the score 0 where nothing was answered."""
    return [
        b if b is None or not quiet else Breakdown(metric=b.metric, score=0.0, counts=b.counts, missed=b.missed)
        for b, quiet in zip(breakdowns, silent.tolist(), strict=True)
    ]


def _is_weight(weight: Any) -> bool:
    return isinstance(weight, int | float) and not isinstance(weight, bool) and 0 <= weight < float("inf")


def _share(part: float, whole: float) -> float | None:
    return float(part / whole) if whole else None
