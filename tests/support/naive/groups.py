"""Groups, repeats and perturbations, in plain loops (section 10)."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from tests.support.naive.agreement import AGREEMENT
from tests.support.naive.calibration import CALIBRATION, CHANCE
from tests.support.naive.correctness import CORRECTNESS, SCORES
from tests.support.naive.deferral import DEFERRAL
from tests.support.naive.efficiency import COST
from tests.support.naive.ranking import RANKINGS
from tests.support.naive.regression import REGRESSION
from tests.support.naive.resources import TAKEN, TAKEN_NUMBERS
from tests.support.naive.screening import SCREENING
from tests.support.naive.selective import SELECTIVE_LABELS, SELECTIVE_NUMBERS, aurc_at, cmax
from tests.support.naive.table import Oracle, Row, Table, Value, is_correct, mean, outcome, share

BASES: dict[str, Oracle] = {
    **CORRECTNESS,
    **SCORES,
    **SCREENING,
    **AGREEMENT,
    **REGRESSION,
    **CALIBRATION,
    **CHANCE,
    **SELECTIVE_LABELS,
    **SELECTIVE_NUMBERS,
    **DEFERRAL,
    **RANKINGS,
    **COST,
    **TAKEN,
    **TAKEN_NUMBERS,
}
LOWER_IS_BETTER = ("mae", "rmse", "ece", "brier", "failure_rate", "parse_failure_rate", "aurc", "latency.p50")


def in_groups(table: Table, base: str, by: str, *, common: bool = False) -> dict[Any, float]:
    """The base metric in every group where it is defined; a row without a group is in none."""
    names = sorted({row[by] for row in table.rows if row[by] is not None})
    tables = {name: table.of([row for row in table.rows if row[by] == name]) for name in names}
    area = common and base == "aurc"
    found = of_areas(tables) if area else {name: BASES[base](part) for name, part in tables.items()}
    return {name: value for name, value in found.items() if value is not None}


def of_areas(tables: dict[Any, Table]) -> dict[Any, Value]:
    """Areas in groups, up to the coverage that all groups with answers reach."""
    reached = [cmax(part) for part in tables.values()]
    common = min((c for c in reached if c), default=None)
    return {name: None if common is None else aurc_at(part, c=common) for name, part in tables.items()}


def fairness_gap(table: Table, *, base: str, by: str) -> Value:
    """Fewer than two groups have no gap: undefined, never 0."""
    values = in_groups(table, base, by, common=True).values()
    return max(values) - min(values) if len(values) > 1 else None


def fairness_ratio(table: Table, *, base: str, by: str) -> Value:
    """Smallest over largest; undefined where the largest is 0 or a value is negative."""
    values = in_groups(table, base, by, common=True).values()
    return min(values) / max(values) if len(values) > 1 and max(values) > 0 and min(values) >= 0 else None


def equalized_odds(table: Table, *, by: str, positive: Any) -> Value:
    gaps = [fairness_gap(table, base=f"{base}(positive={positive})", by=by) for base in ("sensitivity", "fpr")]
    return None if None in gaps else max(gaps)


def worst_group(table: Table, *, base: str, by: str) -> Value:
    values = in_groups(table, base, by).values()
    worst = max if base in LOWER_IS_BETTER else min
    return worst(values, default=None)


def disparity(table: Table, *, base: str, by: str, group: Any) -> Value:
    """Group minus overall, signed."""
    inside, overall = in_groups(table, base, by).get(group), BASES[base](table)
    return None if inside is None or overall is None else inside - overall


def in_group(table: Table, *, base: str, by: str, group: Any) -> Value:
    return in_groups(table, base, by).get(group)


def over_repeats(table: Table, base: str) -> list[Value]:
    repeats = sorted({row["repeat"] for row in table.rows})
    return [BASES[base](table.of([row for row in table.rows if row["repeat"] == r])) for r in repeats]


def spread(values: list[float], less: int) -> Value:
    """Standard deviation, dividing by n − less; one repeat has none."""
    if len(values) < 2:
        return None
    centre = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((v - centre) ** 2 for v in values) / (len(values) - less))


def stability(table: Table, *, base: str, of: str) -> Value:
    """Of a metric over repeats; undefined if it is undefined in one of them."""
    found = over_repeats(table, base)
    if of == "n_seeds":
        return float(len(found))
    values = [v for v in found if v is not None]
    if len(values) < len(found):
        return None
    if of == "mean":
        return mean(values)
    if of == "cv":
        std, centre = spread(values, 0), mean(values)
        return None if std is None or not centre else std / abs(centre)
    return spread(values, 1 if of == "sample_stddev" else 0)


def stability_score(table: Table, *, base: str) -> Value:
    """max(0, 1 − std/|mean|); mean 0: 1 if std is 0, else 0; one repeat: undefined."""
    std, centre = stability(table, base=base, of="stddev"), stability(table, base=base, of="mean")
    if std is None or centre is None:
        return None
    if centre == 0:
        return 1.0 if std == 0 else 0.0
    return max(0.0, 1 - std / abs(centre))


def with_partner(table: Table) -> list[tuple[Row, Row]]:
    """(original, altered) rows of the same question; failed on either side or without partner: left out."""

    def key(row: Row) -> tuple[Any, ...]:
        return tuple(row.get(name) for name in ("model", "strategy", "task", "item", "repeat"))

    def is_original(row: Row) -> bool:
        return row["perturbation"] in (None, "none", "original")

    originals = {key(row): row for row in table.rows if is_original(row)}
    pairs = [(originals.get(key(row)), row) for row in table.rows if not is_original(row)]
    return [(a, b) for a, b in pairs if a is not None and outcome(a) != "failed" and outcome(b) != "failed"]


def agree(original: Row, altered: Row) -> bool:
    """The same outcome, and where both answered the same answer."""
    if outcome(original) != outcome(altered):
        return False
    return outcome(original) != "answered" or original["prediction"] == altered["prediction"]


def readable(table: Table) -> list[tuple[Row, Row]]:
    """The pairs of which both could be read."""
    return [(a, b) for a, b in with_partner(table) if "unparsed" not in (outcome(a), outcome(b))]


def consistency_rate(table: Table) -> Value:
    pairs = readable(table)
    return share(sum(agree(a, b) for a, b in pairs), len(pairs))


def flip_rate(table: Table) -> Value:
    pairs = readable(table)
    return share(sum(not agree(a, b) for a, b in pairs), len(pairs))


def flips_that_became(table: Table, *, correct: bool) -> Value:
    """Of the flips, the share that was otherwise before and is so now."""
    flips = [(a, b) for a, b in readable(table) if not agree(a, b)]
    became = [(a, b) for a, b in flips if is_correct(b) is correct and is_correct(a) is not correct]
    return share(len(became), len(flips))


def before_and_after(table: Table, base: str) -> tuple[Value, Value]:
    pairs = with_partner(table)
    return BASES[base](table.of([a for a, _ in pairs])), BASES[base](table.of([b for _, b in pairs]))


def robustness_score(table: Table, *, base: str) -> Value:
    before, after = before_and_after(table, base)
    return None if before is None or after is None else min(1.0, max(0.0, 1 - abs(before - after)))


def relative_change(table: Table, *, base: str) -> Value:
    before, after = before_and_after(table, base)
    return None if before is None or after is None or before == 0 else (after - before) / abs(before)


# -- by name ---------------------------------------------------------------------------------------------------------


def grouped(base: str) -> dict[str, Oracle]:
    """The metrics of a base metric in sites x, y and z."""
    by = "group.site"
    return {
        f"fairness_gap({base}, by={by})": partial(fairness_gap, base=base, by=by),
        f"worst_group({base}, by={by})": partial(worst_group, base=base, by=by),
        f"fairness_ratio({base}, by={by})": partial(fairness_ratio, base=base, by=by),
        **{f"disparity({base}, by={by}).{g}": partial(disparity, base=base, by=by, group=g) for g in "xyz"},
        **{f"in_group({base}, by={by}).{g}": partial(in_group, base=base, by=by, group=g) for g in "xyz"},
    }


def repeated(base: str) -> dict[str, Oracle]:
    """The metrics of a base metric over repeats."""
    members = ("mean", "stddev", "sample_stddev", "cv", "n_seeds")
    return {
        **{f"stability({base}).{of}": partial(stability, base=base, of=of) for of in members},
        f"stability_score({base})": partial(stability_score, base=base),
    }


GROUPS_LABELS = {
    text: oracle
    for base in ("accuracy", "selective_accuracy", "f1_macro", "ece", "failure_rate", "recall.A", "aurc")
    for text, oracle in grouped(base).items()
}
GROUPS_LABELS["equalized_odds(by=group.site, positive=A)"] = partial(equalized_odds, by="group.site", positive="A")
GROUPS_NUMBERS = {text: oracle for base in ("mae", "rmse", "r2") for text, oracle in grouped(base).items()}
REPEATS_LABELS = {
    text: oracle
    for base in ("accuracy", "selective_accuracy", "f1_macro", "brier", "failure_rate", "latency.p50")
    for text, oracle in repeated(base).items()
}
REPEATS_NUMBERS = {text: oracle for base in ("mae", "bias", "r2") for text, oracle in repeated(base).items()}

FLIPS: dict[str, Oracle] = {
    "consistency_rate": consistency_rate,
    "flip_rate": flip_rate,
    "flip_to_correct": partial(flips_that_became, correct=True),
    "flip_to_incorrect": partial(flips_that_became, correct=False),
}
PERTURBED_LABELS: dict[str, Oracle] = {
    **FLIPS,
    **{
        f"robustness_score({base})": partial(robustness_score, base=base)
        for base in ("accuracy", "selective_accuracy", "answer_rate", "f1_macro", "balanced_accuracy", "ece", "auroc")
    },
    **{f"relative_change({base})": partial(relative_change, base=base) for base in ("accuracy", "brier", "f1.A")},
}
PERTURBED_NUMBERS: dict[str, Oracle] = {
    **FLIPS,
    **{f"relative_change({base})": partial(relative_change, base=base) for base in ("mae", "rmse", "bias", "aurc")},
}
