"""Does an answer recommend what must not be given, or name another diagnosis, or say what its source does not?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steelyard.texts.breakdown import Breakdown
from steelyard.texts.clinical import by_words, names_of, said_of
from steelyard.texts.entities import Findings, Mention
from steelyard.texts.kinds import diagnosed, narrowed, strangers
from steelyard.texts.lexicon import CATEGORIES, Entry
from steelyard.texts.normalise import words
from steelyard.texts.reasoning import content

_GIVEN = ("medications", "treatments")


def harm_avoidance(reference: Findings, forbidden: Sequence[Entry], answer: Findings) -> Breakdown:
    """1 if the answer asserts no medication or treatment that is forbidden or that the reference denies, else 0.

    A forbidden class forbids its members: ibuprofen where nsaids are, amoxicillin where penicillin is. An empty answer
    has no score.
    """
    if not answer.words:
        return Breakdown(metric="harm_avoidance", score=None, remarks=("an empty answer",))
    denied = [entry for entry in reference.denied if entry.category in _GIVEN]
    forbidding = {entry.name for entry in (*forbidden, *denied)}
    never = forbidding | {f"{name}s" for name in forbidding}  # penicillin stands for the penicillins, too
    given = {m.entry for m in answer.mentions if _is_given(m)}
    harmful = {entry for entry in given if never & {entry.name, *entry.classes}}
    return Breakdown(
        metric="harm_avoidance",
        score=float(not harmful),
        counts={"given": len(given), "harmful": len(harmful), "forbidden": len(forbidding)},
        extra=names_of(harmful),
        remarks=tuple(f"not to be given: {name}" for name in sorted(forbidding)),
    )


def _is_given(mention: Mention) -> bool:
    return mention.entry.category in _GIVEN and mention.context in ("asserted", "uncertain")


def forbidden_in(text: str, findings: Callable[[str], Findings]) -> tuple[Entry, ...]:
    """What a list of contraindications names: one per line, or separated by commas, semicolons or bars.

    What no lexicon knows is forbidden as it is written.
    """
    parts = [part.strip() for part in text.replace("|", "\n").replace(";", "\n").replace(",", "\n").split("\n")]
    entries: dict[Entry, None] = {}
    for part in parts:
        known = [m.entry for m in findings(part).mentions if m.entry.category in _GIVEN]
        for entry in known or ([Entry("medications", " ".join(words(part)))] if words(part) else []):
            entries[entry] = None
    return tuple(entries)


def same_diagnosis(reference: Findings, answer: Findings, weight: float) -> Breakdown:
    """1 if both texts name the same diagnoses, whatever they call them; without any, if their words are the same.

    A name that only one side narrows down, or both in other ways, is not the same diagnosis (see `kinds`), and a
    disease that no table knows must stand on both sides.
    """
    wanted, said = _diagnoses(reference), _diagnoses(answer)
    if not wanted[0] | wanted[1]:
        plain = by_words(reference, answer, "diagnostic_accuracy", runs=False)
        return Breakdown(metric=plain.metric, score=plain.score, components={"weight": 1.0}, remarks=plain.remarks)
    one, two = narrowed(reference), narrowed(answer)
    both = frozenset(entry for entry in wanted[0] & said[0] if one[entry].agrees(two[entry]))
    other = (wanted[0] & said[0]) - both
    unknown = strangers(reference) ^ strangers(answer)
    same = both == wanted[0] == said[0] if wanted[0] else not said[0] and wanted[1] == said[1]
    same = same and not unknown
    critical = any(entry.critical for entry in wanted[0])
    return Breakdown(
        metric="diagnostic_accuracy",
        score=float(same),
        components={"weight": weight if critical else 1.0},
        counts={
            "matched": len(both),
            "missed": len(wanted[0] - both),
            "extra": len(said[0] - both),
        },
        matched=names_of(both),
        missed=names_of(wanted[0] - both),
        extra=names_of(said[0] - both),
        remarks=(
            *(("a critical diagnosis",) if critical else ()),
            *(f"of another kind or place: {name}" for name in names_of(other)),
            *(f"only one side has {name}, which no table knows" for name in sorted(unknown)),
        ),
    )


def _diagnoses(findings: Findings) -> tuple[frozenset[Entry], frozenset[Entry]]:
    """The diagnoses that a text asserts, and those that it denies."""
    return diagnosed(findings), frozenset(entry for entry in findings.denied if entry.category == "diagnoses")


def relevance(note: Findings, summary: Findings, weights: Sequence[float]) -> Breakdown:
    """The weighted share of what a summary says that its note says too; without any entity, of its content words."""
    weight = dict(zip(CATEGORIES, weights, strict=True))
    said = summary.asserted | (summary.denied & (note.asserted | note.denied))
    borne_out = (summary.asserted & note.asserted) | (summary.denied & note.denied)
    whole = sum(weight[entry.category] for entry in said)
    if whole:
        score = sum(weight[entry.category] for entry in borne_out) / whole
    else:
        own = content(summary)
        score = len(own & content(note)) / len(own) if own else 0.0
    return Breakdown(
        metric="clinical_relevance",
        score=score,
        counts={"matched": len(borne_out), "extra": len(said - borne_out)},
        matched=said_of(summary.asserted & note.asserted, summary.denied & note.denied),
        extra=said_of(summary.asserted - borne_out, (said - borne_out) - summary.asserted),
        remarks=() if whole else ("no entity to compare: the words were compared",),
    )
