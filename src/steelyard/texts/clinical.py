"""How well the entities of an answer agree with those of a reference.

For each text, A are the entries that it says are so and D those that it denies. In both are A∩A and D∩D, in either are
A∪A and D∩D: what only one side denies says nothing, unless the other side asserts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from steelyard.texts.breakdown import Breakdown
from steelyard.texts.entities import Findings, Mention
from steelyard.texts.lexicon import CATEGORIES, Entry
from steelyard.texts.plain_words import stop_words

WEIGHTS: Mapping[str, float] = {"diagnoses": 3, "treatments": 2, "medications": 2, "symptoms": 1, "labs": 1}


def entity_agreement(
    reference: Findings, answer: Findings, weights: Sequence[float], metric: str = "clinical_accuracy"
) -> Breakdown:
    """The weighted share of entities that both texts have, of those that either has; where there is none, by words."""
    denied = reference.denied & answer.denied
    both = (reference.asserted & answer.asserted) | denied
    either = reference.asserted | answer.asserted | denied
    if not either:
        return by_words(reference, answer, metric)
    weight = dict(zip(CATEGORIES, weights, strict=True))
    whole = sum(weight[entry.category] for entry in either)
    score = sum(weight[entry.category] for entry in both) / whole if whole else None
    missed, extra = reference.asserted - both, answer.asserted - both
    components: dict[str, float] = {}
    counts = {"matched": len(both), "missed": len(missed), "extra": len(extra)}
    for category in CATEGORIES:
        of = [entry for entry in either if entry.category == category]
        hits = sum(entry in both for entry in of)
        if of:
            components[category] = hits / len(of)
            counts |= {f"{category} matched": hits, f"{category} in either": len(of)}
    return Breakdown(
        metric=metric,
        score=score,
        components=components,
        counts=counts,
        matched=said_of(both - denied, denied),
        missed=names_of(missed),
        extra=names_of(extra),
        remarks=(*_remarks("reference", reference), *_remarks("answer", answer)),
    )


def by_words(reference: Findings, answer: Findings, metric: str, *, runs: bool = True) -> Breakdown:
    """Both without an entity: 1 if the texts are equal or, with `runs`, one is a run of the other's words, else 0.

    A run of words that say nothing by themselves ("no", "and") is no answer.
    """
    one, two = reference.words, answer.words
    shorter = one if len(one) < len(two) else two
    within = runs and not stop_words().issuperset(shorter) and (is_run(one, two) or is_run(two, one))
    score = float(one == two or within)
    remark = "no entity to compare: the words were compared"
    return Breakdown(metric=metric, score=score, counts={"matched": 0, "missed": 0, "extra": 0}, remarks=(remark,))


def is_run(part: Sequence[str], whole: Sequence[str]) -> bool:
    """True if the words of one text stand together, in order, in the other."""
    size = len(part)
    return any(tuple(whole[i : i + size]) == tuple(part) for i in range(len(whole) - size + 1))


def names_of(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The names of entries, by category."""
    return tuple(entry.name for entry in sorted(entries, key=lambda e: (CATEGORIES.index(e.category), e.name)))


def said_of(asserted: Iterable[Entry], denied: Iterable[Entry]) -> tuple[str, ...]:
    """The names of what is said to be so, and of what is said not to be."""
    return (*names_of(asserted), *(f"no {name}" for name in names_of(denied)))


def _remarks(side: str, findings: Findings) -> list[str]:
    """What must be known to follow the score: mentions that are not plain assertions, and misspelt words."""
    special = dict.fromkeys(_shown(m) for m in findings.mentions if m.context != "asserted")
    said = [f"{side} has {', '.join(special)}"] if special else []
    return said + [f"{side}: {misread}" for misread in findings.misread]


def _shown(mention: Mention) -> str:
    return f"{mention.entry.name} as {mention.context}"
