"""Agreement beyond chance, in plain loops over every pair of rows or ratings."""

from __future__ import annotations

import math
from collections import Counter
from functools import partial
from typing import Any

from tests.support.naive.correctness import all_labels, class_rows
from tests.support.naive.table import Oracle, Table, Value, outcome

NOTHING = object()  # what was "answered" where nothing was, or something outside the labels


def rated(table: Table, answered_only: bool, labels: tuple[Any, ...] | None) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """The labels in order, and (target, answer) of every row."""
    rows = class_rows(table, answered_only)
    known = all_labels(table, rows, labels)
    pairs = [
        (r["target"], r["prediction"] if outcome(r) == "answered" and r["prediction"] in known else NOTHING)
        for r in rows
    ]
    return known, pairs


def mcc(table: Table, *, answered_only: bool = False) -> Value:
    """The correlation of one-hot targets and answers, summed over classes (no answer is a class too)."""
    _, pairs = rated(table, answered_only, None)
    n = len(pairs)
    targets, answers = Counter(t for t, _ in pairs), Counter(a for _, a in pairs)
    classes = [*targets, *(a for a in answers if a not in targets)]

    def covariance(one: list[Any], two: list[Any]) -> float:
        return math.fsum(
            sum(x == k and y == k for x, y in zip(one, two, strict=True)) / n - one.count(k) * two.count(k) / n**2
            for k in classes
        )

    if len(targets) < 2 or len(answers) < 2:
        return None
    t, a = [t for t, _ in pairs], [a for _, a in pairs]
    return covariance(t, a) / math.sqrt(covariance(t, t) * covariance(a, a))


def kappa(
    table: Table, *, weights: str | None = None, labels: tuple[Any, ...] | None = None, answered_only: bool = False
) -> Value:
    """Observed disagreement over that of every target with every answer."""
    known, pairs = rated(table, answered_only, labels)
    power = {None: 0, "linear": 1, "quadratic": 2}[weights]

    def cost(target: Any, answer: Any) -> float:
        if answer is NOTHING:
            return max(len(known) - 1, 1) ** power
        return 0.0 if target == answer else abs(known.index(target) - known.index(answer)) ** power

    seen = math.fsum(cost(t, a) for t, a in pairs)
    chance = math.fsum(cost(t, a) for t, _ in pairs for _, a in pairs)
    return 1 - seen * len(pairs) / chance if chance else None


def ratings(table: Table, raters: tuple[str, ...]) -> list[list[Any]]:
    """Per row what was said; a model that declined or failed said nothing, the others may have all the same."""
    return [
        [row[name] for name in raters if row[name] is not None and (name != "prediction" or outcome(row) == "answered")]
        for row in table.rows
    ]


def krippendorff_alpha(table: Table, *, raters: tuple[str, ...], level: str = "nominal") -> Value:
    """Mean disagreement of pairs within a row over that of all pairs of pairable ratings."""
    units = [unit for unit in ratings(table, raters) if len(unit) > 1]
    values = sorted(v for unit in units for v in unit)
    counts = Counter(values)

    def distance(a: Any, b: Any) -> float:
        if a == b:
            return 0.0
        if level == "nominal":
            return 1.0
        if level == "interval":
            return float((a - b) ** 2)
        if level == "ratio":
            return float(((a - b) / (abs(a) + abs(b))) ** 2)
        low, high = min(a, b), max(a, b)
        between = sum(n for value, n in counts.items() if low <= value <= high)
        return float((between - (counts[low] + counts[high]) / 2) ** 2)

    n = len(values)
    seen = math.fsum(
        distance(a, b) / (len(unit) - 1)
        for unit in units
        for i, a in enumerate(unit)
        for j, b in enumerate(unit)
        if i != j
    )
    chance = math.fsum(distance(a, b) for a in values for b in values)
    return 1 - (n - 1) * seen / chance if chance else None


def gwet_ac1(table: Table, *, raters: tuple[str, ...]) -> Value:
    units = [unit for unit in ratings(table, raters) if unit]
    several = [unit for unit in units if len(unit) > 1]
    categories = sorted({v for unit in units for v in unit})
    size = len({row[name] for row in table.whole or table.rows for name in raters} - {None} | set(table.labels or ()))
    if not several or size < 2:
        return None
    agreed = math.fsum(
        sum(a == b for i, a in enumerate(unit) for j, b in enumerate(unit) if i != j) / (len(unit) * (len(unit) - 1))
        for unit in several
    ) / len(several)
    shares = [math.fsum(unit.count(k) / len(unit) for unit in units) / len(units) for k in categories]
    chance = math.fsum(s * (1 - s) for s in shares) / (size - 1)
    return (agreed - chance) / (1 - chance)


BOTH = ("target", "prediction")
AGREEMENT: dict[str, Oracle] = {
    "kappa": kappa,
    "kappa(answered_only=true)": partial(kappa, answered_only=True),
    **{
        f"kappa(labels=[A, B, C], weights={w})": partial(kappa, labels=("A", "B", "C"), weights=w)
        for w in ("linear", "quadratic")
    },
    "mcc": mcc,
    "mcc(answered_only=true)": partial(mcc, answered_only=True),
    "krippendorff_alpha(raters=[target, prediction])": partial(krippendorff_alpha, raters=BOTH),
    "gwet_ac1(raters=[target, prediction])": partial(gwet_ac1, raters=BOTH),
}
RATERS = ("a", "b", "c")
RATED: dict[str, Oracle] = {
    **{
        f"krippendorff_alpha(raters=[a, b, c]{'' if level == 'nominal' else f', level={level}'})": partial(
            krippendorff_alpha, raters=RATERS, level=level
        )
        for level in ("nominal", "ordinal", "interval", "ratio")
    },
    "gwet_ac1(raters=[a, b, c])": partial(gwet_ac1, raters=RATERS),
}
