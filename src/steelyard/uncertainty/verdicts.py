"""Better, worse, or not known: what follows from the deltas of one comparison, together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from steelyard.uncertainty.number import Caution, Delta, Outcome
from steelyard.uncertainty.scarcity import FEWEST_CLUSTERS
from steelyard.uncertainty.settings import Settings
from steelyard.uncertainty.significance import holm_within

_NO_VERDICT: frozenset[Caution] = frozenset({"scarce", "unequal missing", "missing group", "lost clusters"})


def judged(deltas: Sequence[Delta], settings: Settings) -> Iterator[Delta]:
    """The deltas with verdicts: the interval excludes 0 and the p-value, Holm-adjusted, is at most α.

    What decides is adjusted over what decides, and what explores over what explores: an answer to a question that
    somebody asked pays nothing for what is shown next to it.
    """
    adjusted = holm_within([p_of(d) for d in deltas], [d.role for d in deltas])
    for d, p in zip(deltas, adjusted, strict=True):
        verdict = verdict_of(d, p, settings.level)
        notes = dict.fromkeys((*d.notes, _direction(d)) if verdict == "differs" else d.notes)  # judged again, once
        with_verdict = replace(d, verdict=verdict, p_adjusted=None if math.isnan(p) else float(p), notes=tuple(notes))
        yield with_verdict.cautioned("twin worse") if _twin_is_worse(d, settings.level) else with_verdict


def p_of(d: Delta) -> float:
    """The p-value that a verdict rests on; NaN where there is none."""
    decisive = d.decisive
    return math.nan if decisive is None or decisive.p_value is None else decisive.p_value


def verdict_of(d: Delta, p: float, level: float) -> Outcome:
    """better, worse or differs if the difference is more than chance at this adjusted p-value; else what is known."""
    if d.unchanged:
        return "unchanged"
    decisive = d.decisive
    if decisive is None or decisive.value is None or not _is_sure(d, decisive, p, level):
        return "inconclusive"
    if d.better is None:
        return "differs"
    return "better" if (decisive.value > 0) == (d.better == "higher") else "worse"


def taken_away(d: Delta) -> str:
    """What to say of a verdict that the number of comparisons took away, or nothing."""
    alone = verdict_of(d, p_of(d), d.level)
    if d.verdict != "inconclusive" or alone == "inconclusive":
        return ""
    return f"by itself it would be {alone}; not after allowing for the number of comparisons"


def _twin_is_worse(d: Delta, level: float) -> bool:
    """True if the verdict comes from a twin, which alone is shown to be worse."""
    return d.verdict_from != d.read_from and verdict_of(d, p_of(d), level) == "worse"


def _is_sure(d: Delta, decisive: Delta, p: float, level: float) -> bool:
    """True if the difference is more than chance, on clusters enough for the test to say so."""
    alpha, cautions = 1 - level, {*d.cautions, *decisive.cautions}
    if math.isnan(p) or p > alpha or decisive.clusters < FEWEST_CLUSTERS or 2.0 ** (1 - decisive.clusters) > alpha:
        return False
    if cautions & _NO_VERDICT:
        return False
    if decisive.interval is None:
        return "constant" in cautions
    return decisive.interval[0] > 0 or decisive.interval[1] < 0


def _direction(d: Delta) -> str:
    """How to say which direction is better."""
    if d.of is not None and any(p.name == "better" for p in d.of.definition.params):
        return f"neither direction is better by itself: say which, such as {d.of.definition.name}(…, better=higher)"
    return "neither direction is better by itself: a gate's rule says which is wanted"
