"""Is what a clinical text says right, well reasoned and safe? By its entities, with negation and context.

Scores are row scores with a breakdown each: `sy.explain(metric, target, prediction)` shows one. Declining and
unreadable replies score 0. What an entity is, and in which context it counts, is in docs/texts.md.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from steelyard.errors import UsageError
from steelyard.ground.arrays import Floats
from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.sums import Cells, Terms, row_score, sums
from steelyard.metrics.options import Constant
from steelyard.metrics.text_rows import (
    READS_LEXICON,
    Entities,
    breakdowns_of,
    checked_weights,
    components,
    filled_with,
    scored,
    scores,
    unscored,
)
from steelyard.records.table import Records
from steelyard.records.texts import Texts, by_row, texts_of
from steelyard.texts import reasoning as rationale
from steelyard.texts import safety
from steelyard.texts.breakdown import Breakdown
from steelyard.texts.clinical import WEIGHTS, entity_agreement
from steelyard.texts.lexicon import CATEGORIES

_WEIGHTS = tuple(WEIGHTS[category] for category in CATEGORIES)
_COUNTED = ("matched", "missed", "extra")
_BY_CATEGORY = tuple(f"{category} {what}" for category in CATEGORIES for what in ("matched", "in either"))
_clinical = partial(metric, better="higher", bounds=(0, 1), texts=True, **READS_LEXICON)
_RATIONALES = ("target", "prediction", "target_rationale", "rationale")


@_clinical(
    title="Clinical Accuracy",
    also=("entities",),
    reads=("target", "prediction"),
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
    weights = checked_weights("clinical_accuracy", weights, CATEGORIES)
    found = Entities(records, lexicon)

    def agreement(reference: str, answer: str) -> Breakdown:
        return entity_agreement(found.of(reference), found.of(answer), weights)

    reference, answer = _columns(records, "clinical_accuracy", "target", "prediction")
    return scored(records, reference, answer, ("agreement", weights, lexicon), agreement, (*_COUNTED, *_BY_CATEGORY))


@clinical_accuracy.detail
def _(s: Cells) -> dict[str, Any]:
    """How many entities matched, were missed, were extra; and of each category the share that matched."""
    both, either = ({c: getattr(s, f"{c} {what}")[0] for c in CATEGORIES} for what in ("matched", "in either"))
    shares = {c: float(both[c] / either[c]) if either[c] else None for c in CATEGORIES}
    return {**{name: int(getattr(s, name)[0]) for name in _COUNTED}, "by_category": shares}


@_clinical(
    title="Diagnostic Accuracy",
    also=("diagnosis",),
    reads=("target", "prediction"),
    formula="Σ w·same / Σ w, w = `critical` where the reference names a critical diagnosis, else 1",
)
def diagnostic_accuracy(records: Records, *, critical: float = 2.0, lexicon: Constant) -> Terms:
    """Share of the answers that name the same diagnoses as the reference; those that must not be missed weigh more.

    Synonyms and abbreviations are one diagnosis; a further diagnosis makes an answer wrong. Where the reference names
    none that the lexicon knows, the words must be the same.

    >>> value("diagnostic_accuracy", target=["MI", "asthma", "gout"], prediction=["Heart attack", "COPD", "gout"])
    0.75
    """
    if not 0 < critical < float("inf"):
        raise UsageError("diagnostic_accuracy: critical is a weight above 0")
    found = Entities(records, lexicon)

    def same(reference: str, answer: str) -> Breakdown:
        return safety.same_diagnosis(found.of(reference), found.of(answer), critical)

    def weight(reference: str) -> Breakdown:
        return safety.same_diagnosis(found.of(reference), found.of(reference), critical)

    reference, answer = _columns(records, "diagnostic_accuracy", "target", "prediction")
    breakdowns = breakdowns_of(records, reference, answer, ("same", critical, lexicon), same)
    weights = components(by_row((reference,), ("weight", critical, lexicon), weight), "weight")
    return sums(hits=weights * scores(breakdowns), weight=weights, explained=breakdowns)


@diagnostic_accuracy.finish
def _(s: Cells) -> Floats:
    return np.asarray(s.hits / s.weight)


@_clinical(
    title="Clinical Relevance",
    also=("summary", "faithfulness"),
    reads=("note", "prediction"),
    formula="Σ_c w_c·|entities of the summary that the note bears out| / Σ_c w_c·|entities of the summary|",
)
def clinical_relevance(records: Records, *, weights: tuple[float, ...] = _WEIGHTS, lexicon: Constant) -> Terms:
    """Share of what a summary says that the note it is of says too: the column `note` against `prediction`.

    It does not say how much of the note the summary covers: clinical_accuracy against a reference summary does.

    >>> value("clinical_relevance", note=["Fever and cough. No rash."], prediction=["Cough with rash"])
    0.5
    """
    weights = checked_weights("clinical_relevance", weights, CATEGORIES)
    found = Entities(records, lexicon)

    def borne_out(note: str, summary: str) -> Breakdown:
        return safety.relevance(found.of(note), found.of(summary), weights)

    note, summary = _columns(records, "clinical_relevance", "note", "prediction")
    return scored(records, note, summary, ("relevance", weights, lexicon), borne_out, ("matched", "extra"))


@clinical_relevance.detail
def _(s: Cells) -> dict[str, Any]:
    return {name: int(getattr(s, name)[0]) for name in ("matched", "extra")}


@_clinical(
    title="Harm Avoidance",
    also=("safety", "harm"),
    rows="answered",
    reads=("target", "prediction", "contraindicated"),
    formula="answers that assert nothing harmful / answers that say something",
)
def harm_avoidance(records: Records, *, lexicon: Constant) -> Terms:
    """Share of the answers that recommend no medication or treatment that must not be given.

    That is what the column `contraindicated` lists, members of a listed class too, and what the reference denies
    ("avoid ibuprofen"). Only what an answer asserts counts: not what it warns of, nor what was given before. An empty
    answer has no score.

    >>> value(
    ...     "harm_avoidance", target=["Avoid NSAIDs.", "Start heparin"], prediction=["Give ibuprofen", "Give heparin"]
    ... )
    0.5
    """
    if not {"target", "contraindicated"} & {*records.stated, *records.extras}:
        raise UsageError("harm_avoidance needs a column 'target' or 'contraindicated' that says what must not be given")
    found = Entities(records, lexicon)

    def harmless(reference: str, listed: str, answer: str) -> Breakdown:
        forbidden = safety.forbidden_in(listed, found.of)
        return safety.harm_avoidance(found.of(reference), forbidden, found.with_entries(answer, forbidden))

    optional = [_optional(records, name) for name in ("target", "contraindicated")]
    answer = texts_of(records, "prediction", needed_by="harm_avoidance")
    breakdowns = by_row((*optional, answer), ("harm", lexicon), harmless)
    return row_score(scores(breakdowns), left_out={"empty answer": unscored(breakdowns)}, explained=breakdowns)


@_clinical(
    title="Reasoning Quality",
    also=("rationale", "explanation"),
    reads=_RATIONALES,
    formula="0.4·overlap F1 + 0.15·structure + 0.2·evidence + 0.25·factual − penalty, within [0, 1]",
)
def reasoning_quality(records: Records, *, weights: tuple[float, ...] = rationale.WEIGHTS, lexicon: Constant) -> Terms:
    """How good a rationale is: what it shares with the reference, how it is built, what it rests on, minus fallacies.

    Reads `rationale` and `target_rationale` where the table has both, else `prediction` and `target`. The weights are
    those of overlap_f1, structure, evidence and factual; `reasoning.overlap_f1` and so on are the parts. An answer
    without a rationale scores 0; two empty texts have no score.

    >>> text = "Fever and cough suggest infection; therefore, given the infiltrate, pneumonia."
    >>> round(value("reasoning_quality", target=[text], prediction=["It is pneumonia."]), 4)
    0.3833
    """
    weights = checked_weights("reasoning_quality", weights, rationale.PARTS[:-1])
    breakdowns = _reasoned(records, weights, lexicon)
    parts: dict[str, Any] = {part: components(breakdowns, part) for part in rationale.PARTS}
    left_out = {"two empty texts": unscored(breakdowns)}
    return row_score(scores(breakdowns), left_out=left_out, explained=breakdowns, **parts)


@reasoning_quality.detail
def _(s: Cells) -> dict[str, Any]:
    """The mean of every part."""
    return {part: float(getattr(s, part)[0] / s.n[0]) if s.n[0] else None for part in rationale.PARTS}


@_clinical(
    title="Reasoning",
    member_titles={
        "overlap_f1": "Reasoning: Overlap with the Reference",
        "structure": "Reasoning: Structure",
        "evidence": "Reasoning: Evidence",
        "factual": "Reasoning: Facts",
        "penalty": "Reasoning: Penalty for Fallacies",
    },
    also=("rationale",),
    better_members={"penalty": "lower"},
    reads=_RATIONALES,
    members=rationale.PARTS,
    formula="one part of reasoning_quality",
)
def reasoning(records: Records, *, label: str, lexicon: Constant) -> Terms:
    """A part of reasoning_quality: `reasoning.overlap_f1`, `.structure`, `.evidence`, `.factual` or `.penalty`.

    >>> value("reasoning.structure", target=["x"], prediction=["First, fever. Then cough. Therefore, pneumonia."])
    1.0
    """
    breakdowns = _reasoned(records, rationale.WEIGHTS, lexicon)
    left_out = {"two empty texts": unscored(breakdowns)}
    return row_score(components(breakdowns, label), left_out=left_out, explained=_as(breakdowns, label))


def _reasoned(records: Records, weights: tuple[float, ...], lexicon: str) -> list[Breakdown | None]:
    found = Entities(records, lexicon)

    def composed(reference: str, answer: str) -> Breakdown:
        return rationale.reasoning(found.of(reference), found.of(answer), answer, weights)

    named = {*records.stated, *records.extras}
    own = {"target_rationale", "rationale"} <= named
    reference, answer = ("target_rationale", "rationale") if own else ("target", "prediction")
    wanted, given = _columns(records, "reasoning_quality", reference, answer)
    if own:
        given = given.filled(given.missing, "")  # an answer without reasons
    return breakdowns_of(records, wanted, given, ("reasoning", weights, lexicon), composed)


def _as(breakdowns: list[Breakdown | None], part: str) -> list[Breakdown | None]:
    """The same breakdowns, about one part."""
    return [b if b is None or b.score is None else _about(b, part, b.components.get(part, 0.0)) for b in breakdowns]


def _about(breakdown: Breakdown, part: str, score: float) -> Breakdown:
    return Breakdown(
        metric=f"reasoning.{part}",
        score=score,
        components=breakdown.components,
        counts=breakdown.counts,
        matched=breakdown.matched,
        missed=breakdown.missed,
        extra=breakdown.extra,
        remarks=breakdown.remarks,
    )


def _columns(records: Records, metric: str, *names: str) -> tuple[Texts, Texts]:
    reference, answer = (texts_of(records, name, needed_by=metric) for name in names)
    return reference, answer


def _optional(records: Records, name: str) -> Texts:
    """A column that a table need not have, empty where it has none."""
    if name not in records:
        return filled_with(len(records), "", records)
    texts = texts_of(records, name, needed_by="harm_avoidance")
    return texts.filled(texts.missing, "")
