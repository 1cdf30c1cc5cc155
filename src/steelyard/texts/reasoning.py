"""How good a rationale is: what it shares with a reference, how it is built, what it rests on, and its fallacies.

    0.4 · overlap F1 + 0.15 · structure + 0.2 · evidence + 0.25 · factual − penalty, kept within 0 and 1

overlap F1   of what is said: each entity once, whichever synonym, denied ones apart; and the other content words
structure    words such as "first" or "therefore", three or more are 1
evidence     words such as "consistent with" or "supported by", three or more are 1
factual      share of the answer's entities that the reference has too, with the same sense; without any entity, the
             share of its content words that are in the reference
penalty      0.15 for each fallacy ("everyone knows"), at most 0.4

Two empty texts have no score.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib import resources

from steelyard.texts.breakdown import Breakdown
from steelyard.texts.entities import Findings
from steelyard.texts.normalise import words
from steelyard.texts.overlap import f1_of
from steelyard.texts.plain_words import plain_words, stop_words, word_list

PARTS = ("overlap_f1", "structure", "evidence", "factual", "penalty")
WEIGHTS = (0.4, 0.15, 0.2, 0.25)
ENOUGH = 3  # markers
FALLACY, MOST_PENALTY = 0.15, 0.4
_ALL = "100%"
_NEAR = 25  # characters on either side in which a measure stands
_MEASURED = word_list("measured")


def reasoning(
    reference: Findings, answer: Findings, text: str, weights: Sequence[float], metric: str = "reasoning_quality"
) -> Breakdown:
    """The composite and its five parts; `text` is the answer itself, in which markers are looked for."""
    if not reference.words and not answer.words:
        return Breakdown(metric=metric, score=None, remarks=("two empty texts",))
    wanted, said = units(reference), units(answer)
    overlap = f1_of(len(wanted & said), len(said), len(wanted))[2]
    found = {kind: markers(kind, text) for kind in ("structure", "evidence", "fallacy")}
    structure, evidence = (min(1.0, len(found[kind]) / ENOUGH) for kind in ("structure", "evidence"))
    factual, counts, against = _factual(reference, answer)
    penalty = min(MOST_PENALTY, FALLACY * len(found["fallacy"]))
    parts = (overlap, structure, evidence, factual)
    score = sum(w * part for w, part in zip(weights, parts, strict=True)) - penalty
    fallacies = (f"fallacies: {', '.join(found['fallacy'])}",) if found["fallacy"] else ()
    return Breakdown(
        metric=metric,
        score=min(1.0, max(0.0, score)),
        components=dict(zip(PARTS, (*parts, penalty), strict=True)),
        counts={
            "matched": len(wanted & said),
            "missed": len(wanted - said),
            "extra": len(said - wanted),
            **counts,
            **{f"{kind} markers": len(phrases) for kind, phrases in found.items()},
        },
        matched=tuple(sorted(wanted & said)),
        missed=tuple(sorted(wanted - said)),
        extra=tuple(sorted(said - wanted)),
        remarks=(*against, *fallacies),
    )


def units(findings: Findings) -> frozenset[str]:
    """What a text says, each once: its entities by name, denied ones as such, and its other content words."""
    entities = {entry.name for entry in findings.asserted} | {f"no {entry.name}" for entry in findings.denied}
    return frozenset(entities | content(findings))


def content(findings: Findings) -> frozenset[str]:
    """The words outside of entities that are more than the glue of a sentence."""
    return frozenset(word for word in findings.rest if word not in _glue())


def _factual(reference: Findings, answer: Findings) -> tuple[float, dict[str, int], tuple[str, ...]]:
    """The share of what the answer says that the reference bears out; counts, and what it contradicts."""
    known = reference.asserted | reference.denied
    said = answer.asserted | (answer.denied & known)
    borne_out = (answer.asserted & reference.asserted) | (answer.denied & reference.denied)
    contradicted = (answer.asserted & reference.denied) | (answer.denied & reference.asserted)
    counts = {
        "borne out": len(borne_out),
        "contradicted": len(contradicted),
        "unsupported": len(answer.asserted - known),
    }
    names = sorted(entry.name for entry in contradicted)
    remarks = (f"contradicts the reference: {', '.join(names)}",) if names else ()
    if said:
        return len(borne_out) / len(said), counts, remarks
    own = content(answer)
    return (len(own & content(reference)) / len(own) if own else 0.0), counts, remarks


def markers(kind: str, text: str) -> list[str]:
    """The markers of a kind in a text, each as often as it stands there.

    >>> markers("structure", "1. Fever. 2. Cough. Therefore, pneumonia")
    ['1.', '2.', 'therefore']
    """
    plain, marked = _patterns()[kind]
    lowered = " ".join(text.lower().split())
    found = [match[0] for match in marked.finditer(lowered) if match[0] != _ALL or not _is_measured(lowered, match)]
    return found + plain.findall(" ".join(words(text)))


def _is_measured(text: str, match: re.Match[str]) -> bool:
    """True if "100%" is a value and no claim: "100% oxygen", "SpO2 100%", "a specificity of 100%"."""
    near = f"{text[max(0, match.start() - _NEAR) : match.start()]} {text[match.end() : match.end() + _NEAR]}"
    return not _MEASURED.isdisjoint(words(near))


@cache
def _patterns() -> dict[str, tuple[re.Pattern[str], re.Pattern[str]]]:
    """Of each kind, the markers without and with punctuation."""
    table = resources.files("steelyard.texts.lexicons").joinpath("markers.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in table.splitlines() if line and not line.startswith("#")]
    patterns = {}
    for kind, cell in rows:
        phrases = sorted(cell.split("|"), key=len, reverse=True)
        plain = [phrase for phrase in phrases if phrase.replace(" ", "").isalnum()]
        marked = [phrase for phrase in phrases if phrase not in plain]
        patterns[kind] = (_whole(plain), _whole(marked))
    return patterns


def _whole(phrases: Sequence[str]) -> re.Pattern[str]:
    """Any of the phrases as whole tokens; nothing where there is none."""
    any_ = "|".join(map(re.escape, phrases)) or r"(?!)"
    return re.compile(rf"(?<![\w.])(?:{any_})(?![\w])(?!\.\d)")


@cache
def _glue() -> frozenset[str]:
    return stop_words() | plain_words()
