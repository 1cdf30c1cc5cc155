"""Naive oracles: every metric once more, in plain loops over row dicts, from the written definitions alone.

Sources: SEMANTICS (sections 1-6, 10, 12), trec_eval's manual, the documents on selective prediction, run metrics and
abstention. Nothing here looks at the package; None stands for "undefined". `NAIVE` maps the text of a metric to its
oracle.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from random import Random
from typing import Any

Row = dict[str, Any]
Value = float | None


@dataclass(frozen=True)
class Table:
    """Rows as dicts, all with the same keys, and what is known of them as a whole."""

    rows: list[Row]
    labels: tuple[Any, ...] | None = None  # the task's fixed label set
    width: float | None = None  # the task's declared score range
    wall_seconds: float | None = None
    cluster: str = "item"

    def of(self, rows: list[Row]) -> Table:
        """The same task with other rows."""
        return replace(self, rows=rows)


Oracle = Callable[[Table], Value]


# -- rows and outcomes (section 1) ---------------------------------------------------------------------------------


def outcome(row: Row) -> str:
    """A stated outcome wins; else a null prediction is an abstention, where there is a prediction column."""
    if row.get("outcome") is not None:
        return str(row["outcome"])
    if "prediction" in row and row["prediction"] is None:
        return "abstained"
    return "answered"


def asked(table: Table) -> list[Row]:
    """N: answered, abstained and unparsed rows."""
    return [row for row in table.rows if outcome(row) != "failed"]


def answered(table: Table) -> list[Row]:
    return [row for row in table.rows if outcome(row) == "answered"]


def with_target(rows: list[Row]) -> list[Row]:
    """Rows that can be judged at all."""
    return [row for row in rows if row["target"] is not None]


def is_correct(row: Row) -> bool:
    return outcome(row) == "answered" and row["prediction"] == row["target"]


def share(part: float, whole: float) -> Value:
    return part / whole if whole else None


def mean(numbers: list[float]) -> Value:
    return math.fsum(numbers) / len(numbers) if numbers else None


# -- correctness (section 2) -----------------------------------------------------------------------------------------


def accuracy(table: Table) -> Value:
    rows = with_target(asked(table))
    return share(sum(is_correct(row) for row in rows), len(rows))


def selective_accuracy(table: Table) -> Value:
    rows = with_target(answered(table))
    return share(sum(is_correct(row) for row in rows), len(rows))


def outcome_rate(table: Table, *, of: str) -> Value:
    rows = asked(table)
    return share(sum(outcome(row) == of for row in rows), len(rows))


def failure_rate(table: Table) -> Value:
    return share(sum(outcome(row) == "failed" for row in table.rows), len(table.rows))


def balanced_accuracy(table: Table) -> Value:
    recalls = []
    rows = with_target(asked(table))
    for label in {row["target"] for row in rows}:
        of_label = [row for row in rows if row["target"] == label]
        recalls.append(sum(is_correct(row) for row in of_label) / len(of_label))
    return mean(recalls) if len(recalls) >= 2 else None


def class_counts(rows: list[Row], label: Any) -> tuple[int, int, int]:
    """True positives, support and predicted of one class; a non-answer is a miss and a false positive for none."""
    hits = support = predicted = 0
    for row in rows:
        says = outcome(row) == "answered" and row["prediction"] == label
        support += row["target"] == label
        predicted += says
        hits += says and row["target"] == label
    return hits, support, predicted


def class_rows(table: Table, answered_only: bool) -> list[Row]:
    return with_target(answered(table) if answered_only else asked(table))


def all_labels(table: Table, rows: list[Row], labels: tuple[Any, ...] | None) -> list[Any]:
    """Labels asked for, else the task's, else the union of targets and (answered) predictions."""
    if labels is not None:
        return list(labels)
    if table.labels is not None:
        return list(table.labels)
    found = {row["target"] for row in rows}
    found |= {row["prediction"] for row in rows if outcome(row) == "answered"}
    return sorted(found)


def f1_of(rows: list[Row], label: Any) -> Value:
    """Harmonic mean of precision and recall, 0 where neither hits, None where the class is nowhere."""
    hits, support, predicted = class_counts(rows, label)
    if support == 0 and predicted == 0:
        return None
    if hits == 0:
        return 0.0
    precision_, recall_ = hits / predicted, hits / support
    return 2 * precision_ * recall_ / (precision_ + recall_)


def f1_macro(table: Table, *, labels: tuple[Any, ...] | None = None, answered_only: bool = False) -> Value:
    rows = class_rows(table, answered_only)
    if not rows:
        return None
    return mean([f1_of(rows, label) or 0.0 for label in all_labels(table, rows, labels)])


def f1_weighted(table: Table, *, labels: tuple[Any, ...] | None = None, answered_only: bool = False) -> Value:
    rows = class_rows(table, answered_only)
    if not rows:
        return None
    terms = [
        class_counts(rows, label)[1] / len(rows) * (f1_of(rows, label) or 0.0)
        for label in all_labels(table, rows, labels)
    ]
    return math.fsum(terms)


def f1(table: Table, *, label: Any, answered_only: bool = False) -> Value:
    return f1_of(class_rows(table, answered_only), label)


def precision(table: Table, *, label: Any) -> Value:
    hits, _, predicted = class_counts(class_rows(table, False), label)
    return share(hits, predicted)


def recall(table: Table, *, label: Any) -> Value:
    hits, support, _ = class_counts(class_rows(table, False), label)
    return share(hits, support)


def auroc_of(positives: list[float], negatives: list[float]) -> Value:
    """The share of pairs ranked the right way, ties one half."""
    wins = 0.0
    for p in positives:
        for n in negatives:
            wins += 1.0 if p > n else 0.5 if p == n else 0.0
    return share(wins, len(positives) * len(negatives))


def auroc(table: Table) -> Value:
    rows = [row for row in with_target(answered(table)) if row["confidence"] is not None]
    return auroc_of(
        [row["confidence"] for row in rows if is_correct(row)],
        [row["confidence"] for row in rows if not is_correct(row)],
    )


def auroc_of_targets(table: Table, *, positive: Any, score: str) -> Value:
    rows = [row for row in with_target(asked(table)) if row[score] is not None]
    return auroc_of(
        [row[score] for row in rows if row["target"] == positive],
        [row[score] for row in rows if row["target"] != positive],
    )


def mean_of(table: Table, *, column: str) -> Value:
    return mean([row[column] for row in asked(table) if row[column] is not None])


# -- regression (section 2), exact ---------------------------------------------------------------------------------


def pairs_of_numbers(table: Table) -> list[tuple[Fraction, Fraction]]:
    """(target, prediction) of the answered rows, exactly."""
    return [(Fraction(row["target"]), Fraction(row["prediction"])) for row in with_target(answered(table))]


def errors(table: Table) -> list[Fraction]:
    return [prediction - target for target, prediction in pairs_of_numbers(table)]


def exact_mean(numbers: list[Fraction]) -> Fraction:
    return sum(numbers, Fraction(0)) / len(numbers)


def root(number: Fraction) -> float:
    """A square root that neither overflows nor underflows on the way: 60 digits by whole numbers."""
    if number == 0:
        return 0.0
    shift = 200 - (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    scaled = number * Fraction(4) ** shift
    return float(Fraction(math.isqrt(scaled.numerator // scaled.denominator)) / Fraction(2) ** shift)


def mae(table: Table) -> Value:
    found = [abs(e) for e in errors(table)]
    return float(exact_mean(found)) if found else None


def mdae(table: Table) -> Value:
    found = sorted(abs(e) for e in errors(table))
    if not found:
        return None
    return float((found[(len(found) - 1) // 2] + found[len(found) // 2]) / 2)


def rmse(table: Table) -> Value:
    found = [e * e for e in errors(table)]
    return root(exact_mean(found)) if found else None


def bias(table: Table) -> Value:
    found = errors(table)
    return float(exact_mean(found)) if found else None


def r2(table: Table) -> Value:
    pairs = pairs_of_numbers(table)
    if len({target for target, _ in pairs}) < 2:
        return None
    centre = exact_mean([target for target, _ in pairs])
    left = sum((prediction - target) ** 2 for target, prediction in pairs)
    total = sum((target - centre) ** 2 for target, _ in pairs)
    return float(1 - left / total)


def correlation(pairs: list[tuple[Fraction, Fraction]]) -> Value:
    if len({x for x, _ in pairs}) < 2 or len({y for _, y in pairs}) < 2:
        return None
    mx, my = exact_mean([x for x, _ in pairs]), exact_mean([y for _, y in pairs])
    xy = sum((x - mx) * (y - my) for x, y in pairs)
    xx = sum((x - mx) ** 2 for x, _ in pairs)
    yy = sum((y - my) ** 2 for _, y in pairs)
    return math.copysign(root(xy * xy / (xx * yy)), xy)


def pearson(table: Table) -> Value:
    return correlation(pairs_of_numbers(table))


def midranks(numbers: list[Any]) -> list[Fraction]:
    """1-based ranks, equal numbers share their mean."""
    return [
        Fraction(2 * sum(other < number for other in numbers) + sum(other == number for other in numbers) + 1, 2)
        for number in numbers
    ]


def spearman(table: Table) -> Value:
    pairs = pairs_of_numbers(table)
    targets, predictions = midranks([x for x, _ in pairs]), midranks([y for _, y in pairs])
    return correlation(list(zip(targets, predictions, strict=True)))


def mae_by_bin(table: Table, *, low: float, high: float = math.inf) -> Value:
    """Both ends belong to the bin, which is the target's."""
    return mae(table.of([row for row in with_target(table.rows) if low <= row["target"] <= high]))


# -- calibration (section 3) -----------------------------------------------------------------------------------------


def calibration_rows(table: Table) -> list[Row]:
    return [row for row in with_target(answered(table)) if row["confidence"] is not None]


def width_bin(confidence: float, bins: int) -> int:
    """Bin k is [k/bins, (k+1)/bins), the last closed; the edges are the doubles k/bins."""
    for k in range(bins):
        if k / bins <= confidence < (k + 1) / bins:
            return k
    return bins - 1


def mass_bins(confidences: list[float], bins: int) -> list[int]:
    """⌊bins · midrank / n⌋ with the midrank as the mass below plus half the ties, in whole numbers."""
    n = len(confidences)
    doubled = [
        2 * sum(other < c for other in confidences) + sum(other == c for other in confidences) for c in confidences
    ]
    return [bins * d // (2 * n) for d in doubled]


def gaps(rows: list[Row], bin_of_row: list[int]) -> list[tuple[int, float]]:
    """(rows, |accuracy − mean confidence|) of every non-empty bin."""
    found = []
    for k in sorted(set(bin_of_row)):
        inside = [row for row, b in zip(rows, bin_of_row, strict=True) if b == k]
        hits = sum(is_correct(row) for row in inside) / len(inside)
        confidence = math.fsum(row["confidence"] for row in inside) / len(inside)
        found.append((len(inside), abs(hits - confidence)))
    return found


def width_gaps(table: Table, bins: int) -> list[tuple[int, float]]:
    rows = calibration_rows(table)
    return gaps(rows, [width_bin(row["confidence"], bins) for row in rows])


def weighted_gap(found: list[tuple[int, float]]) -> Value:
    total = sum(n for n, _ in found)
    return math.fsum(n / total * gap for n, gap in found) if found else None


def ece(table: Table, *, bins: int = 10) -> Value:
    return weighted_gap(width_gaps(table, bins))


def calibration_error2(table: Table, *, bins: int = 10) -> Value:
    """Σ over bins of (S² − Q)·G/(G−1)/(N·n_b): pairs of different clusters, cluster by cluster."""
    rows = calibration_rows(table)
    units = [row[table.cluster] for row in rows]
    count = len(set(units))
    if count < 2:
        return None
    total = 0.0
    places = [width_bin(row["confidence"], bins) for row in rows]
    for k in set(places):
        gap: dict[Any, float] = {}
        for row, unit, place in zip(rows, units, places, strict=True):
            if place == k:
                gap[unit] = gap.get(unit, 0.0) + is_correct(row) - row["confidence"]
        pairs = math.fsum(gap[a] * gap[b] for a in gap for b in gap if a != b)
        total += pairs / (len(rows) * places.count(k))
    return total * count / (count - 1)


def of_class(oracle: Callable[..., Value], table: Table, *, positive: str, **options: Any) -> Value:
    """The same metric with the confidence read as the probability of a class, on every asked row with both.

    A class that no target has is undefined: it may be misspelt.
    """
    if all(row["target"] != positive for row in table.rows):
        return None
    rows = [
        {**row, "outcome": "answered", "prediction": "hit", "target": "hit" if row["target"] == positive else "miss"}
        for row in with_target(asked(table))
    ]
    return oracle(table.of(rows), **options)


def mce(table: Table, *, bins: int = 10) -> Value:
    return max((gap for _, gap in width_gaps(table, bins)), default=None)


def ace(table: Table, *, bins: int = 10) -> Value:
    rows = calibration_rows(table)
    return weighted_gap(gaps(rows, mass_bins([row["confidence"] for row in rows], bins)))


def brier(table: Table, *, binary: bool = False) -> Value:
    rows = answered(table)
    held = {row["prediction"] for row in rows} | {row["target"] for row in with_target(rows)}
    if binary and len(held) > 2:
        return None
    return mean([(row["confidence"] - is_correct(row)) ** 2 for row in calibration_rows(table)])


def nll(table: Table) -> Value:
    terms = []
    for row in calibration_rows(table):
        p = min(max(row["confidence"], 1e-6), 1 - 1e-6)
        terms.append(-math.log(p if is_correct(row) else 1 - p))
    return mean(terms)


def signed_gaps(table: Table, bins: int, number: type) -> list[dict[int, Any]]:
    """d_cb = hits − mass of every cluster, by bin; exact where `number` is Fraction."""
    found: dict[Any, dict[int, Any]] = {}
    for row in calibration_rows(table):
        cell = found.setdefault(row[table.cluster], {})
        k = width_bin(row["confidence"], bins)
        cell[k] = cell.get(k, 0) + is_correct(row) - number(row["confidence"])
    return list(found.values())


def ece_under(signs: Iterable[int], clusters: list[dict[int, Any]], n: int) -> Any:
    """Σ_b |Σ_c s_c d_cb| / N."""
    total: dict[int, Any] = {}
    for sign, cell in zip(signs, clusters, strict=True):
        for k, d in cell.items():
            total[k] = total.get(k, 0) + sign * d
    return sum(map(abs, total.values())) / n


def null_eces(table: Table, bins: int) -> list[Fraction]:
    """The ECE under every choice of cluster signs, exactly (for few clusters)."""
    clusters, n = signed_gaps(table, bins, Fraction), len(calibration_rows(table))
    if not n:
        return []
    return [ece_under(signs, clusters, n) for signs in itertools.product((1, -1), repeat=len(clusters))]


def sampled_null_eces(table: Table, bins: int, draws: int, random: Random) -> list[float]:
    """The ECE under random cluster signs."""
    clusters, n = signed_gaps(table, bins, float), len(calibration_rows(table))
    return [ece_under([random.choice((1, -1)) for _ in clusters], clusters, n) for _ in range(draws)]


def ece_null(table: Table, *, bins: int = 10) -> Value:
    """The mean over all cluster signs."""
    found = null_eces(table, bins)
    return float(exact_mean(found)) if found else None


def p_calibrated(table: Table, *, bins: int = 10, slack: float = 0.0) -> Value:
    """The share of all cluster signs whose ECE reaches the observed one, which is the one of all signs +1."""
    found = null_eces(table, bins)
    return sum(e >= found[0] - Fraction(slack) for e in found) / len(found) if found else None


# -- selective prediction (section 4) --------------------------------------------------------------------------------


def loss_of(row: Row, loss: str | None, width: float | None) -> float:
    """zero_one for labels and abs for numbers unless said otherwise."""
    prediction, target = row["prediction"], row["target"]
    numeric = isinstance(target, int | float) and not isinstance(target, bool)
    name = loss or ("abs" if numeric else "zero_one")
    if name == "zero_one":
        return float(prediction != target)
    distance = float(abs(Fraction(prediction) - Fraction(target)))
    return distance / width if name == "abs_norm" else distance


@dataclass(frozen=True)
class Point:
    """One working point."""

    coverage: float
    risk: float
    generalized: float


def ranked(table: Table, rank: str, loss: str | None, width: float | None) -> list[tuple[float, float]]:
    """(signal, loss) of the answered rows, highest signal first."""
    found = [(row[rank], loss_of(row, loss, width or table.width)) for row in answered(table)]
    return sorted(found, key=lambda pair: -pair[0])


def working_points(rows: list[tuple[float, float]], n: int) -> list[Point]:
    """One point per distinct signal: all rows of a plateau are added at once."""
    points = []
    for signal in dict.fromkeys(signal for signal, _ in rows):  # −0.0 == 0.0
        accepted = [loss for other, loss in rows if other >= signal]
        total = math.fsum(accepted)
        points.append(Point(len(accepted) / n, total / len(accepted), total / n))
    return points


def curve(
    table: Table, *, rank: str = "confidence", loss: str | None = None, range: float | None = None
) -> list[Point]:
    rows = ranked(table, rank, loss, range)
    return working_points(rows, len(asked(table)))


def optimal_curve(
    table: Table, *, rank: str = "confidence", loss: str | None = None, range: float | None = None
) -> list[Point]:
    """Every answered row its own point, by loss ascending."""
    losses = sorted(loss for _, loss in ranked(table, rank, loss, range))
    return working_points([(-float(i), loss) for i, loss in enumerate(losses)], len(asked(table)))


def area(line: list[tuple[float, float]]) -> float:
    """Trapezoids under a polyline."""
    return math.fsum((x1 - x0) * (y0 + y1) / 2 for (x0, y0), (x1, y1) in itertools.pairwise(line))


def risk_line(points: list[Point]) -> list[tuple[float, float]]:
    """Selective risk with risk(0) = the first risk."""
    return [(0.0, points[0].risk), *((p.coverage, p.risk) for p in points)]


def generalized_line(points: list[Point]) -> list[tuple[float, float]]:
    return [(0.0, 0.0), *((p.coverage, p.generalized) for p in points)]


def cut(line: list[tuple[float, float]], c: float) -> list[tuple[float, float]]:
    """The polyline up to min(c, its end), interpolated linearly to land there."""
    kept = [line[0]]
    for (x0, y0), (x1, y1) in itertools.pairwise(line):
        if x1 <= c:
            kept.append((x1, y1))
        else:
            kept.append((c, y0 + (y1 - y0) * (c - x0) / (x1 - x0)))
            break
    return kept


def cmax(table: Table, **options: Any) -> Value:
    return share(len(answered(table)), len(asked(table)))


def aurc(table: Table, **options: Any) -> Value:
    points = curve(table, **options)
    return area(risk_line(points)) if points else None


def augrc(table: Table, **options: Any) -> Value:
    points = curve(table, **options)
    return area(generalized_line(points)) if points else None


def aurc_optimal(table: Table, **options: Any) -> Value:
    points = optimal_curve(table, **options)
    return area(risk_line(points)) if points else None


def augrc_optimal(table: Table, **options: Any) -> Value:
    points = optimal_curve(table, **options)
    return area(generalized_line(points)) if points else None


def difference(table: Table, *, of: Callable[..., Value], minus: Callable[..., Value], **options: Any) -> Value:
    left, right = of(table, **options), minus(table, **options)
    return None if left is None or right is None else left - right


def aurc_over_orders(
    table: Table, *, rank: str = "confidence", loss: str | None = None, range: float | None = None
) -> Value:
    """The mean AURC over every order of tied rows, each row its own point, by enumerating them (tiny tables)."""
    rows = ranked(table, rank, loss, range)
    if not rows:
        return None
    plateaus = [[row for row in rows if row[0] == signal] for signal in dict.fromkeys(s for s, _ in rows)]
    areas = []
    for orders in itertools.product(*(itertools.permutations(plateau) for plateau in plateaus)):
        ordered = [(-float(i), loss) for i, (_, loss) in enumerate(itertools.chain(*orders))]
        areas.append(area(risk_line(working_points(ordered, len(asked(table))))))
    return mean(areas)


def aurc_exact_ties(
    table: Table, *, rank: str = "confidence", loss: str | None = None, range: float | None = None
) -> Value:
    """The same in closed form: after j of m tied rows, j/m of the plateau's loss is expected."""
    rows, n = ranked(table, rank, loss, range), len(asked(table))
    if not rows:
        return None
    points, before = [], []
    for signal in dict.fromkeys(s for s, _ in rows):
        tied = [loss for s, loss in rows if s == signal]
        for j, _ in enumerate(tied, start=1):
            total = math.fsum(before) + math.fsum(tied) * j / len(tied)
            points.append(Point((len(before) + j) / n, total / (len(before) + j), total / n))
        before += tied
    return area(risk_line(points))


def aurc_achievable(table: Table, **options: Any) -> Value:
    """The lower hull by gift wrapping: from each vertex to the point with the smallest slope, the farthest of equals.

    Then vertices that lie at most 1e-10 under the chord of their neighbours are dropped.
    """
    points = curve(table, **options)
    if not points:
        return None
    hull, place = [points[0]], 0
    while place < len(points) - 1:
        here = points[place]
        slopes = {
            k: (points[k].risk - here.risk) / (points[k].coverage - here.coverage)
            for k in range(place + 1, len(points))
        }
        place = max(k for k, slope in slopes.items() if slope == min(slopes.values()))
        hull.append(points[place])
    flat = True
    while flat:
        flat = False
        for a, b, c in zip(hull, hull[1:], hull[2:], strict=False):
            chord = a.risk + (c.risk - a.risk) * (b.coverage - a.coverage) / (c.coverage - a.coverage)
            if chord - b.risk <= 1e-10:
                hull.remove(b)
                flat = True
                break
    return area(risk_line(hull))


def aurc_at(table: Table, *, c: float, **options: Any) -> Value:
    points = curve(table, **options)
    return area(cut(risk_line(points), c)) if points else None


def augrc_at(table: Table, *, c: float, **options: Any) -> Value:
    points = curve(table, **options)
    return area(cut(generalized_line(points), c)) if points else None


def risk_at(table: Table, *, c: float, **options: Any) -> Value:
    return next((p.risk for p in curve(table, **options) if p.coverage >= c), None)


# -- deferral (section 5) --------------------------------------------------------------------------------------------


def deferral_cells(table: Table) -> dict[str, int]:
    """S4's four cells; unparsed rows and rows without the label are left out."""
    cells = dict.fromkeys(
        ("defer_when_needed", "answer_when_safe", "answer_when_should_defer", "abstain_when_should_answer"), 0
    )
    for row in asked(table):
        if outcome(row) == "unparsed" or row["should_abstain"] is None:
            continue
        if row["should_abstain"]:
            cells["defer_when_needed" if outcome(row) == "abstained" else "answer_when_should_defer"] += 1
        else:
            cells["abstain_when_should_answer" if outcome(row) == "abstained" else "answer_when_safe"] += 1
    return cells


def deferral_alignment(table: Table) -> Value:
    cells = deferral_cells(table)
    return share(cells["defer_when_needed"] + cells["answer_when_safe"], sum(cells.values()))


def unsafe_answer_rate(table: Table) -> Value:
    cells = deferral_cells(table)
    unsafe = cells["answer_when_should_defer"]
    return share(unsafe, unsafe + cells["defer_when_needed"])


def over_deferral_rate(table: Table) -> Value:
    cells = deferral_cells(table)
    over = cells["abstain_when_should_answer"]
    return share(over, over + cells["answer_when_safe"])


def deferral_balanced(table: Table) -> Value:
    unsafe, over = unsafe_answer_rate(table), over_deferral_rate(table)
    return None if unsafe is None or over is None else 1 - (unsafe + over) / 2


# -- rankings (section 6) --------------------------------------------------------------------------------------------


def ranking(row: Row) -> tuple[list[float | None], list[float]] | None:
    """Grades in ranked order (None: not judged) and all judged grades; None for a query without judgements."""
    if "judged" in row:
        return None if row["judged"] is None else (row["gains"] or [], row["judged"])
    if "gold_rank" in row:
        rank = row["gold_rank"]
        return None if rank is None else ([None] * (rank - 1) + [1] if rank else [], [1])
    if row["target"] is None:
        return None
    return [1 if name in row["target"] else None for name in row["prediction"] or []], [1] * len(row["target"])


def over_queries(table: Table, of: Callable[[list[float | None], list[float]], float]) -> Value:
    found = [lists for row in asked(table) if (lists := ranking(row)) is not None]
    return mean([of(ranked, judged) for ranked, judged in found])


def relevant_in(grades: Iterable[float | None], level: int) -> int:
    return sum(grade is not None and grade >= level for grade in grades)


def dcg(grades: Iterable[float | None], k: int | None) -> float:
    terms = []
    for rank, grade in enumerate(grades, start=1):
        if grade is not None and grade > 0 and (k is None or rank <= k):
            terms.append(grade / math.log2(rank + 1))
    return math.fsum(terms)


def ndcg(table: Table, *, k: int | None = None) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        best = dcg(sorted(judged, reverse=True), k)
        return dcg(ranked, k) / best if best else 0.0

    return over_queries(table, of)


def mrr(table: Table, *, k: int | None = None, level: int = 1) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        for rank, grade in enumerate(ranked[:k], start=1):
            if grade is not None and grade >= level:
                return 1 / rank
        return 0.0

    return over_queries(table, of)


def average_precision(table: Table, *, k: int | None = None, level: int = 1) -> Value:
    """The sum is cut at k, the number of relevant documents is not."""

    def of(ranked: list[float | None], judged: list[float]) -> float:
        terms = [
            relevant_in(ranked[:rank], level) / rank
            for rank, grade in enumerate(ranked[:k], start=1)
            if relevant_in([grade], level)
        ]
        total = relevant_in(judged, level)
        return math.fsum(terms) / total if total else 0.0

    return over_queries(table, of)


def precision_at(table: Table, *, k: int, level: int = 1) -> Value:
    return over_queries(table, lambda ranked, _: relevant_in(ranked[:k], level) / k)


def recall_at(table: Table, *, k: int, level: int = 1) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        return (share(relevant_in(ranked[:k], level), relevant_in(judged, level))) or 0.0

    return over_queries(table, of)


def hit(table: Table, *, k: int, level: int = 1) -> Value:
    return over_queries(table, lambda ranked, _: float(relevant_in(ranked[:k], level) > 0))


def rprec(table: Table, *, level: int = 1) -> Value:
    def of(ranked: list[float | None], judged: list[float]) -> float:
        total = relevant_in(judged, level)
        return share(relevant_in(ranked[:total], level), total) or 0.0

    return over_queries(table, of)


# -- cost (section 10) -----------------------------------------------------------------------------------------------


def percentile(numbers: list[float], q: float) -> Value:
    """Linear between order statistics: place (n − 1)·q."""
    if not numbers:
        return None
    ordered, place = sorted(numbers), (len(numbers) - 1) * q
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def latency(table: Table, *, of: str) -> Value:
    found = [row["latency_ms"] for row in asked(table) if row["latency_ms"] is not None]
    if not found:
        return None
    if of == "mean":
        return mean(found)
    if of in ("min", "max"):
        return {"min": min, "max": max}[of](found)
    return percentile(found, int(of.removeprefix("p")) / 100)


def throughput(table: Table) -> Value:
    if table.wall_seconds is None:
        return None
    rate = share(len(asked(table)), table.wall_seconds)
    return None if rate is None else rate * 60


def tokens_per_second(table: Table) -> Value:
    rows = [row for row in asked(table) if row["output_tokens"] is not None and row["latency_ms"] is not None]
    return share(sum(row["output_tokens"] for row in rows), math.fsum(row["latency_ms"] for row in rows) / 1000)


# -- groups, repeats, perturbations (section 10) ---------------------------------------------------------------------

LOWER_IS_BETTER = ("mae", "rmse", "ece", "brier", "failure_rate", "parse_failure_rate", "aurc", "latency.p50")


def in_groups(table: Table, base: str, by: str, *, common: bool = False) -> dict[Any, float]:
    """The base metric in every group where it is defined; a row without a group is in none."""
    names = sorted({row[by] for row in table.rows if row[by] is not None})
    tables = {name: table.of([row for row in table.rows if row[by] == name]) for name in names}
    area = common and base == "aurc"
    found = of_areas(tables) if area else {name: NAIVE[base](part) for name, part in tables.items()}
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


def worst_group(table: Table, *, base: str, by: str) -> Value:
    values = in_groups(table, base, by).values()
    worst = max if base in LOWER_IS_BETTER else min
    return worst(values, default=None)


def disparity(table: Table, *, base: str, by: str, group: Any) -> Value:
    """Group minus overall, signed."""
    inside, overall = in_groups(table, base, by).get(group), NAIVE[base](table)
    return None if inside is None or overall is None else inside - overall


def over_repeats(table: Table, base: str) -> list[Value]:
    repeats = sorted({row["repeat"] for row in table.rows})
    return [NAIVE[base](table.of([row for row in table.rows if row["repeat"] == r])) for r in repeats]


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


def consistency_rate(table: Table) -> Value:
    pairs = with_partner(table)
    return share(sum(agree(a, b) for a, b in pairs), len(pairs))


def flip_rate(table: Table) -> Value:
    pairs = with_partner(table)
    return share(sum(not agree(a, b) for a, b in pairs), len(pairs))


def flips_that_became(table: Table, *, correct: bool) -> Value:
    """Of the flips, the share that was otherwise before and is so now."""
    flips = [(a, b) for a, b in with_partner(table) if not agree(a, b)]
    became = [(a, b) for a, b in flips if is_correct(b) is correct and is_correct(a) is not correct]
    return share(len(became), len(flips))


def before_and_after(table: Table, base: str) -> tuple[Value, Value]:
    pairs = with_partner(table)
    return NAIVE[base](table.of([a for a, _ in pairs])), NAIVE[base](table.of([b for _, b in pairs]))


def robustness_score(table: Table, *, base: str) -> Value:
    before, after = before_and_after(table, base)
    return None if before is None or after is None else min(1.0, max(0.0, 1 - abs(before - after)))


def relative_change(table: Table, *, base: str) -> Value:
    before, after = before_and_after(table, base)
    return None if before is None or after is None or before == 0 else (after - before) / abs(before)


# -- the registry ----------------------------------------------------------------------------------------------------

OUTCOMES: dict[str, Oracle] = {
    "answer_rate": partial(outcome_rate, of="answered"),
    "abstention_rate": partial(outcome_rate, of="abstained"),
    "parse_failure_rate": partial(outcome_rate, of="unparsed"),
    "failure_rate": failure_rate,
}

CORRECTNESS: dict[str, Oracle] = {
    "accuracy": accuracy,
    "selective_accuracy": selective_accuracy,
    **OUTCOMES,
    "balanced_accuracy": balanced_accuracy,
    "f1_macro": f1_macro,
    "f1_weighted": f1_weighted,
    "f1_macro(answered_only=true)": partial(f1_macro, answered_only=True),
    "f1_weighted(answered_only=true)": partial(f1_weighted, answered_only=True),
    "f1_macro(labels=[A, B, C, Z])": partial(f1_macro, labels=("A", "B", "C", "Z")),
    "f1_weighted(labels=[C, B, A])": partial(f1_weighted, labels=("C", "B", "A")),
    "f1_macro(labels=[A, B, C], answered_only=true)": partial(f1_macro, labels=("A", "B", "C"), answered_only=True),
    "auroc": auroc,
    "auroc(positive=A, score=signal.x)": partial(auroc_of_targets, positive="A", score="signal.x"),
    **{f"f1.{x}": partial(f1, label=x) for x in "ABZ"},
    **{f"f1(answered_only=true).{x}": partial(f1, label=x, answered_only=True) for x in "AB"},
    **{f"precision.{x}": partial(precision, label=x) for x in "ABZ"},
    **{f"recall.{x}": partial(recall, label=x) for x in "ABZ"},
}

SCORES: dict[str, Oracle] = {
    "mean(score)": partial(mean_of, column="score"),
    "mean(score, better=higher)": partial(mean_of, column="score"),
}

REGRESSION: dict[str, Oracle] = {
    "mae": mae,
    "mdae": mdae,
    "rmse": rmse,
    "bias": bias,
    "r2": r2,
    "pearson": pearson,
    "spearman": spearman,
    "mae_by_bin.1-3": partial(mae_by_bin, low=1, high=3),
    "mae_by_bin.5-8": partial(mae_by_bin, low=5, high=8),
    "mae_by_bin.13-21": partial(mae_by_bin, low=13, high=21),
    "mae_by_bin.34+": partial(mae_by_bin, low=34),
    'mae_by_bin(bins=["0-1", "2-3"]).2-3': partial(mae_by_bin, low=2, high=3),
}

CALIBRATION: dict[str, Oracle] = {
    **{f"ece(bins={k})": partial(ece, bins=k) for k in (1, 5, 15, 64)},
    **{f"mce(bins={k})": partial(mce, bins=k) for k in (1, 15)},
    **{f"ace(bins={k})": partial(ace, bins=k) for k in (1, 2, 3, 15)},
    "ece": ece,
    "mce": mce,
    "ace": ace,
    "brier": brier,
    "brier(binary=true)": partial(brier, binary=True),
    "nll": nll,
    "calibration_error2": calibration_error2,
    "calibration_error2(bins=3)": partial(calibration_error2, bins=3),
    **{
        f"{name}(positive=A)": partial(of_class, oracle, positive="A")
        for name, oracle in (("ece", ece), ("ace", ace), ("brier", brier), ("nll", nll), ("mce", mce))
    },
    "calibration_error2(positive=A)": partial(of_class, calibration_error2, positive="A"),
}

CHANCE: dict[str, Oracle] = {
    "ece_null": ece_null,
    "ece_null(bins=3)": partial(ece_null, bins=3),
    "p_calibrated": p_calibrated,
    "p_calibrated(bins=3)": partial(p_calibrated, bins=3),
}


def selective(text: str, **options: Any) -> dict[str, Oracle]:
    """The whole family with these options, written as `text`."""

    def named(name: str, more: str = "") -> str:
        given = ", ".join(part for part in (text, more) if part)
        return f"{name}({given})" if given else name

    return {
        named("cmax"): partial(cmax, **options),
        named("aurc"): partial(aurc, **options),
        named("augrc"): partial(augrc, **options),
        named("aurc_optimal"): partial(aurc_optimal, **options),
        named("augrc_optimal"): partial(augrc_optimal, **options),
        named("eaurc"): partial(difference, of=aurc, minus=aurc_optimal, **options),
        named("eaugrc"): partial(difference, of=augrc, minus=augrc_optimal, **options),
        named("aurc", "ties=exact"): partial(aurc_exact_ties, **options),
        named("eaurc", "ties=exact"): partial(difference, of=aurc_exact_ties, minus=aurc_optimal, **options),
        named("aurc_achievable"): partial(aurc_achievable, **options),
        named("aurc_at"): partial(aurc_at, c=0.5, **options),
        named("augrc_at"): partial(augrc_at, c=0.5, **options),
        **{named("aurc_at", f"c={c}"): partial(aurc_at, c=c, **options) for c in (0.05, 0.3, 0.75, 1)},
        **{named("augrc_at", f"c={c}"): partial(augrc_at, c=c, **options) for c in (0.05, 0.3, 0.75, 1)},
        **{named("risk_at", f"c={c}"): partial(risk_at, c=c, **options) for c in (0.1, 0.3, 0.5, 0.6, 0.9, 1)},
    }


def some_selective(text: str, **options: Any) -> dict[str, Oracle]:
    """A few of the family: enough to see that an option is read."""
    heads = ("aurc", "augrc", "eaurc", "aurc_achievable", "augrc_at", "risk_at")
    found = selective(text, **options)
    return {named: oracle for named, oracle in found.items() if named.partition("(")[0] in heads}


SELECTIVE_LABELS: dict[str, Oracle] = {
    **selective(""),
    **some_selective("loss=zero_one", loss="zero_one"),
    **selective("rank=signal.x", rank="signal.x"),
}

SELECTIVE_NUMBERS: dict[str, Oracle] = {
    **selective("loss=abs", loss="abs"),
    **some_selective(""),
    **some_selective("loss=abs_norm, range=3", loss="abs_norm", range=3.0),
    **some_selective("loss=abs_norm", loss="abs_norm"),
    **some_selective("loss=zero_one", loss="zero_one"),
    **some_selective("rank=signal.x, loss=abs", rank="signal.x", loss="abs"),
}

DEFERRAL: dict[str, Oracle] = {
    "deferral_alignment": deferral_alignment,
    "unsafe_answer_rate": unsafe_answer_rate,
    "over_deferral_rate": over_deferral_rate,
    "deferral_balanced": deferral_balanced,
}

RANKINGS: dict[str, Oracle] = {
    "ndcg": ndcg,
    **{f"ndcg@{k}": partial(ndcg, k=k) for k in (1, 3, 10, 1000)},
    "mrr": mrr,
    "map": average_precision,
    "rprec": rprec,
    "mrr(level=2)": partial(mrr, level=2),
    "map(level=2)": partial(average_precision, level=2),
    "rprec(level=2)": partial(rprec, level=2),
    **{
        text: partial(of, k=k, level=level)
        for name, of in (
            ("mrr", mrr),
            ("map", average_precision),
            ("precision", precision_at),
            ("recall", recall_at),
            ("hit", hit),
        )
        for k in (1, 2, 5, 1000)
        for level, text in ((1, f"{name}@{k}"), (2, f"{name}@{k}(level=2)"), (3, f"{name}@{k}(level=3)"))
    },
}

COST: dict[str, Oracle] = {
    **{f"latency.{of}": partial(latency, of=of) for of in ("p50", "p95", "p99", "mean", "min", "max")},
    "throughput": throughput,
    "input_tokens": partial(mean_of, column="input_tokens"),
    "output_tokens": partial(mean_of, column="output_tokens"),
    "tokens_per_second": tokens_per_second,
}


def grouped(base: str) -> dict[str, Oracle]:
    """The metrics of a base metric in sites x, y and z."""
    by = "group.site"
    return {
        f"fairness_gap({base}, by={by})": partial(fairness_gap, base=base, by=by),
        f"worst_group({base}, by={by})": partial(worst_group, base=base, by=by),
        **{f"disparity({base}, by={by}).{g}": partial(disparity, base=base, by=by, group=g) for g in "xyz"},
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

NAIVE: dict[str, Oracle] = {
    **CORRECTNESS,
    **SCORES,
    **REGRESSION,
    **CALIBRATION,
    **CHANCE,
    **SELECTIVE_LABELS,
    **SELECTIVE_NUMBERS,
    **DEFERRAL,
    **RANKINGS,
    **COST,
    **GROUPS_LABELS,
    **GROUPS_NUMBERS,
    **REPEATS_LABELS,
    **REPEATS_NUMBERS,
    **PERTURBED_LABELS,
    **PERTURBED_NUMBERS,
}
