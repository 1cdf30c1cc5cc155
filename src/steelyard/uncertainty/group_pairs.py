"""Numbers over groups in two runs: only groups that have a value in both are compared, and the others are said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from steelyard.metrics.evidence.combined import Groups
from steelyard.metrics.evidence.sums import Draw
from steelyard.records.labels import value_name
from steelyard.uncertainty.groups import named, over_groups
from steelyard.uncertainty.intervals import Interval, Rule, containing
from steelyard.uncertainty.sampling import Sample, read_sample

if TYPE_CHECKING:
    from steelyard.uncertainty.paired import PairedSample


def shared_groups(base: Sample, new: Sample) -> tuple[Sample, Sample, tuple[str, ...]]:
    """Both sides with the groups that have a value in both, and what must be said of the others."""
    if not base.metric.over_groups:
        return base, new, ()
    parts = [_of_shared_groups(*pair) for pair in zip(over_groups(base), over_groups(new), strict=True)]
    said = tuple(dict.fromkeys(note for _, _, notes in parts for note in notes))
    if not said:
        return base, new, ()
    return _made_of(base, [one for one, _, _ in parts]), _made_of(new, [two for _, two, _ in parts]), said


def _of_shared_groups(base: Sample, new: Sample) -> tuple[Sample, Sample, tuple[str, ...]]:
    """One number over groups, of those that have a value in both runs, and what must be said of the others."""
    source, unit = base.metric.definition.source, Draw(np.ones((1, len(base.evidence.ids))))
    known = []
    for s in (base, new):
        reading = source.readied(s.metric, unit.read(s.evidence), s.constants)
        known.append({n for n, v in zip(reading.names, reading.values[0], strict=True) if not math.isnan(v)})
    shared, met = known[0] & known[1], dict.fromkeys((*base.evidence.names, *new.evidence.names))
    if all(name in shared for name in met):
        return base, new, ()
    kept = [
        read_sample(replace(s, evidence=s.evidence.of_groups(tuple(n for n in s.evidence.names if n in shared))), unit)
        for s in (base, new)
    ]
    alone = [value_name(n) for n in met if (n in known[0]) != (n in known[1])]
    neither = [value_name(n) for n in met if n not in known[0] and n not in known[1]]
    said = [f"{named(alone)} left out: without a value in one run"] if alone else []
    said += [f"{named(neither)} left out: without a value in both runs"] if neither else []
    return kept[0], kept[1], tuple(said)


def _made_of(s: Sample, parts: Sequence[Sample]) -> Sample:
    """The sample with other evidence of what is over groups in it."""
    if isinstance(s.evidence, Groups):
        return parts[0]
    evidence = replace(s.evidence, parts=tuple(part.evidence for part in parts))
    return read_sample(replace(s, evidence=evidence), Draw(np.ones((1, len(evidence.ids)))))


def larger_of_gaps(sample: PairedSample, gaps: Sequence[PairedSample], lost: Sequence[str]) -> PairedSample:
    """The larger of several gaps changes by no less than the least and no more than the most that one of them does.

    So its interval is from the lowest to the highest end of theirs, all held at once; it is no surer than any.
    """
    rules, delta = [each.rule for each in gaps if each.rule is not None], sample.delta

    def ends(level: float) -> Interval:
        each = [rule.at(1 - (1 - level) / len(gaps)) for rule in rules]
        return containing((min(low for low, _ in each), max(high for _, high in each)), delta)

    every = len(rules) == len(gaps)
    notes = [note for each in gaps for note in each.notes if every or each.rule is None]
    cautions = dict.fromkeys(caution for each in gaps for caution in each.cautions)
    return replace(
        sample,
        rule=Rule("t", ends) if every else None,
        se=max(each.se for each in gaps) if every else math.nan,
        clusters=min(each.clusters for each in gaps),
        parts=min((each.parts for each in gaps), key=lambda parts: parts.fewest),
        notes=tuple(dict.fromkeys((*notes, *lost))),
        cautions=(*cautions, "missing group") if lost else tuple(cautions),
    )
