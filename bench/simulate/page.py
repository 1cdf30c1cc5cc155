"""The study as a Markdown page: defect by defect, every cell, power, peers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from bench.simulate.peers import peers
from bench.simulate.populations import (
    CLUSTERS,
    GAP,
    LOSSES,
    ROW_POPULATIONS,
    ROWS,
    STABLE,
    UNSAFE,
    WORST,
    Pairing,
    Population,
)
from bench.simulate.study import (
    CALIBRATION,
    EDITIONS,
    GATE,
    LEVEL,
    LOOKS,
    Study,
    Tallies,
    Tally,
    clusters_of,
)

LOW = 0.93  # a coverage below is not held
ONE_SIDED = 0.035  # nor is a miss of more on one side
ALARMS = 0.07  # nor p ≤ 0.05, or a verdict, more often between equal runs

Rate = Callable[[Tally], float]
Rows = Iterable[Sequence[str]]


# -- defect by defect ----------------------------------------------------------------------------------------------


def _below(t: Tally) -> float:
    return t.share(t.below)


def _above(t: Tally) -> float:
    return t.share(t.above)


def _missed(t: Tally) -> float:
    return 1 - t.coverage


def _small_p(t: Tally) -> float:
    return t.share(t.small_p)


def _verdict(t: Tally) -> float:
    return t.share(t.verdicts)


def _silent(t: Tally) -> float:
    return t.share(t.silent)


def _contradicted(t: Tally) -> float:
    return t.share(t.worse)


def _deciding_p(t: Tally) -> float:
    return t.share(t.small_deciding_p)


def _outside(t: Tally) -> float:
    return t.share(t.outside)


WORDS: dict[Rate, str] = {
    _below: "truth below",
    _above: "truth above",
    _missed: "not held",
    _small_p: "p ≤ 0.05",
    _verdict: "verdict",
    _silent: "no note",
    _contradicted: "fails, p > 0.025",
    _deciding_p: "deciding p ≤ 0.05",
    _outside: "beyond ±1",
}
ALARMING = (_small_p, _deciding_p, _verdict)  # judged by how often, not by an interval
NEVER = (_silent, _contradicted, _outside)  # should not happen at all


@dataclass(frozen=True)
class Defect:
    """A row of the list of what the first edition got wrong: where it shows, and in which rate."""

    number: int
    name: str
    metric: str
    rate: Rate
    kind: str = "intervals"  # of a table; "pairs" or "gates"


SWAPPED = ("ece", "risk_at(c=0.5)", "latency.p95")
DEFECTS = (
    *(Defect(1, f"{100 * share:.0f}% lose", "accuracy", _below, "pairs") for share in LOSSES),
    Defect(1, "labels lose", "f1_macro", _below, "pairs"),
    *(Defect(2, name, GAP, _below) for name in ("80:20", "five groups", "cut 80:20", "cut five")),
    Defect(2, "tiny groups", GAP, _missed),
    *(Defect(3, "scarce", metric, _missed) for metric in ("deferral_balanced", "balanced_accuracy", "f1_macro")),
    *(Defect(3, "scarce, uneven", metric, _missed) for metric in ("deferral_balanced", "balanced_accuracy")),
    Defect(3, "rare class", "f1_macro", _missed),
    Defect(3, "scarce", "deferral_balanced", _verdict, "pairs"),
    Defect(4, "calibrated", "ece", _small_p, "pairs"),
    *(Defect(4, "uneven", metric, _small_p, "pairs") for metric in SWAPPED),
    Defect(4, "uneven", "aurc", _deciding_p, "pairs"),
    Defect(4, "equal groups", GAP, _small_p, "pairs"),
    Defect(4, "skewed squares", "rmse", _small_p, "pairs"),
    *(Defect(5, name, "ece", _missed, "pairs") for name in ("calibrated better", "calibrated at last")),
    Defect(5, "calibrated at last", "calibration_error2", _missed, "pairs"),
    Defect(5, "over and under", "ece", _verdict, "pairs"),
    *(Defect(6, "heavy", metric, _above) for metric in ("mae", "rmse", "latency.p95")),
    Defect(6, "heavy", "pearson", _missed),
    *(Defect(6, "Pareto", metric, _above) for metric in ("mae", "rmse")),
    Defect(6, "overconfident", "brier", _above),
    *(Defect(7, "turned", "accuracy", rate, "pairs") for rate in (_missed, _outside)),
    *(Defect(8, "one bad cluster", "auroc", rate, "pairs") for rate in (_silent, _verdict)),
    Defect(9, UNSAFE.name, GATE[0], _contradicted, "gates"),
    *(Defect(10, "repeats", metric, _missed) for metric in STABLE),
    *(Defect(11, f"{count} equal groups", WORST, _missed) for count in (3, 6, 10)),
    Defect(12, "near the bound", "ndcg", _below),
    Defect(12, "nearly constant", "ndcg", _missed),
)


def _defect_rows(study: Study) -> Iterator[tuple[str, ...]]:
    for defect in DEFECTS:
        tallies: Tallies = getattr(study, defect.kind)
        name = () if defect.kind == "gates" else (defect.name,)
        sizes = sorted({key[-2] for key in tallies if key[:-2] == (*name, defect.metric)})
        first, now = (
            [tallies[(*name, defect.metric, clusters, edition)] for clusters in sizes] for edition in EDITIONS
        )
        if not sizes:
            continue
        yield (
            str(defect.number),
            f"{defect.name}: {defect.metric}",
            " / ".join(map(str, sizes)),
            WORDS[defect.rate],
            _several(map(defect.rate, first)),
            _several(map(defect.rate, now)),
            _several(t.coverage for t in now),
            _several(map(_below, now)),
            _several(map(_above, now)),
            _held(
                defect.rate, now, at_bound=defect.kind == "intervals" and _at_bound(study, defect.name, defect.metric)
            ),
        )


def _held(rate: Rate, tallies: Sequence[Tally], *, at_bound: bool) -> str:
    """Held, or how often not: by its rate where that is a false alarm, else by its intervals."""
    if rate in (*ALARMING, *NEVER):
        most = ALARMS if rate in ALARMING else 0.0
        worst = max(map(rate, tallies))
        return "held" if worst <= most else f"**not held** ({_percent(worst)})"
    failing = [t for t in tallies if not interval_held(t, at_bound=at_bound)]
    if not failing:
        return "held"
    lowest = min(t.coverage for t in failing)
    side = max(max(_below(t), _above(t)) for t in failing)
    return (
        f"**not held** ({len(failing)} of {len(tallies)}: holds {_percent(lowest)}, one side misses {_percent(side)})"
    )


def interval_held(t: Tally, *, at_bound: bool = False) -> bool:
    """At least 93% of the tables have an interval that holds the truth, and each side misses in at most 3.5%.

    Where the truth is the end of the metric's range, such as a gap of 0, only one side can miss: it has all 5%.
    """
    return t.coverage >= LOW and (at_bound or max(_below(t), _above(t)) <= ONE_SIDED)


def _at_bound(study: Study, name: str, metric: str) -> bool:
    return study.truths[name][metric] in (0.0, 1.0) and metric != "calibration_error2"  # which may be negative


# -- every cell ----------------------------------------------------------------------------------------------------

CELL_HEADS = ("first: holds", "below / above", "width", "now: holds", "below / above", "width", "none, first / now")


def _cell(tallies: Tallies, key: tuple[object, ...], *, at_bound: bool = False) -> list[str]:
    first, now = (tallies[(*key, edition)] for edition in EDITIONS)
    shown = []
    for t in (first, now):
        shown += [
            _marked(t, at_bound=at_bound),
            f"{_percent(_below(t))} / {_percent(_above(t))}",
            f"{t.mean_width:.3g}",
        ]
    none = f"{_percent(first.missing)} / {_percent(now.missing)}" if first.missing or now.missing else ""
    return [*shown, none]


def _marked(t: Tally, *, at_bound: bool) -> str:
    return _percent(t.coverage) + ("" if interval_held(t, at_bound=at_bound) else " ↓")


def _by_metric(drawn: Iterable[Population] | Iterable[Pairing]) -> list[tuple[str, Population | Pairing]]:
    """Metric by metric, in the order in which they first appear; friendly and hostile populations side by side."""
    listed = [(metric, p) for p in drawn for metric in p.metrics]
    order = list(dict.fromkeys(metric for metric, _ in listed))
    return sorted(listed, key=lambda pair: order.index(pair[0]))


def _interval_rows(study: Study) -> Rows:
    for metric, population in _by_metric(study.populations):
        truth = f"{study.truths[population.name][metric]:.4g}"
        for clusters in clusters_of(population, study.plan):
            bound = _at_bound(study, population.name, metric)
            cell = _cell(study.intervals, (population.name, metric, clusters), at_bound=bound)
            yield metric, population.name, truth, str(clusters), *cell


def _delta_rows(study: Study) -> Rows:
    for metric, pairing in _by_metric(study.pairings):
        truth = f"{study.deltas[pairing.name][metric]:+.3g}"
        for clusters in clusters_of(pairing, study.plan):
            cell = _cell(study.pairs, (pairing.name, metric, clusters))
            yield metric, pairing.name, truth, str(clusters), *cell


def _equal_rows(study: Study) -> Rows:
    for metric, pairing in _by_metric(p for p in study.pairings if p.equal):
        for clusters in clusters_of(pairing, study.plan):
            first, now = (study.pairs[pairing.name, metric, clusters, edition] for edition in EDITIONS)
            alarms = [_alarm(rate(t)) for rate in ALARMING for t in (first, now)]
            yield metric, pairing.name, str(clusters), *alarms


def _power_rows(study: Study) -> Rows:
    for metric, pairing in _by_metric(p for p in study.pairings if p.planted):
        truth = study.deltas[pairing.name][metric]
        for clusters in clusters_of(pairing, study.plan):
            shown = []
            for edition in EDITIONS:
                t = study.pairs[pairing.name, metric, clusters, edition]
                shown += [_percent(t.share(t.better)), _percent(t.share(t.worse))]
            yield metric, pairing.name, f"{truth:+.3g}", str(clusters), *shown
    for population in study.populations:
        if population.name in ("a real gap", "tiny groups"):
            for clusters in clusters_of(population, study.plan):
                shown = []
                for edition in EDITIONS:
                    t = study.intervals[population.name, GAP, clusters, edition]
                    shown += [_percent(t.share(t.positive)), ""]
                yield GAP, population.name, f"{study.truths[population.name][GAP]:.3g}", str(clusters), *shown


def _noise_rows(study: Study) -> Rows:
    for name in ("calibrated", "answers"):
        for clusters in study.plan.clusters or CLUSTERS:
            ece, null, p = (study.noise[name, m, clusters] for m in CALIBRATION)
            shown = [f"{t.mean_value:.3g}" for t in (ece, null)]
            yield name, f"{study.truths[name]['ece']:.3g}", str(clusters), *shown, _percent(_small_p(p))


def _peer_rows(study: Study) -> Rows:
    for name, peer in peers().items():
        shown = []
        for kind in ROW_POPULATIONS:
            found = [study.peers.get((kind, name, clusters)) for clusters in study.plan.clusters or CLUSTERS]
            shown.append(_several(t.share(t.differs) for t in found if t is not None) or "not installed")
        yield (name, *shown) if peer is not None else (name, *("not installed" for _ in ROW_POPULATIONS))


# -- the page ------------------------------------------------------------------------------------------------------


def rendered(study: Study) -> str:
    """The study as a Markdown page; parts that were not run are left out."""
    plan = study.plan
    error = 100 * math.sqrt(LEVEL * (1 - LEVEL) / plan.replications)
    sizes = " / ".join(map(str, plan.clusters or CLUSTERS))
    drawn = (*study.populations, *study.pairings)
    limits = f"at least {100 * LOW:.0f}% of the intervals hold the truth and each side misses in at most "
    limits += f"{100 * ONE_SIDED:.1f}% (5% belong to one side where the truth is the end of the range, as a gap of 0)"
    sections: list[tuple[str, str, list[str]]] = [
        (
            "",
            f"{plan.replications} replications a cell, {plan.resamples} resamples, seed {plan.seed}. True values: "
            f"closed form, or one draw of {plan.truth_clusters:,} clusters ({ROWS} rows each, or 1 to 60). A coverage "
            f"of 95% has a standard error of {error:.1f} points. *Below*, *above*: percent of the tables where the "
            "truth lies below or above the interval; nominal 2.5. *First*: the first edition, *now*: the present one, "
            "on the same tables.",
            [],
        ),
        (
            "Defect by defect",
            f"**Held**: {limits}; between equal runs, p ≤ 0.05 or a verdict in at most {100 * ALARMS:.0f}%; what "
            "should not happen at all never did. Percent, by number of clusters.",
            _table(
                ("#", "population: metric", "clusters", "rate", "first", "now", "now holds", "below", "above", ""),
                _defect_rows(study),
            ),
        ),
        (
            "Intervals of estimates",
            f"Metric by metric, friendly and hostile populations side by side. ↓: not {limits}. *None*: percent "
            "without an interval, which holds nothing.",
            _table(("metric", "population", "true", "clusters", *CELL_HEADS), _interval_rows(study)),
        ),
        (
            "Intervals of paired deltas",
            "",
            _table(("metric", "pair", "true", "clusters", *CELL_HEADS), _delta_rows(study)),
        ),
        (
            "Equal runs told apart",
            f"Percent of equal pairs; ↑: more than {100 * ALARMS:.0f}. *Deciding p*: of the number that the verdict "
            "rests on, such as the area up to the coverage that both runs reach.",
            _table(
                (
                    "metric",
                    "pair",
                    "clusters",
                    *(f"{what}, {e}" for what in ("p ≤ 0.05", "deciding p", "verdict") for e in EDITIONS),
                ),
                _equal_rows(study),
            ),
        ),
        (
            "Planted differences found",
            "Percent with the right verdict, and with the wrong one; for a gap within one table, with an interval "
            "above 0.",
            _table(
                (
                    "metric",
                    "pair",
                    "true",
                    "clusters",
                    *(f"{what}, {e}" for e in EDITIONS for what in ("found", "wrong")),
                ),
                _power_rows(study),
            ),
        ),
        (
            "Noise in ECE",
            "Means over tables, and the percent with p_calibrated ≤ 0.05.",
            _table(
                ("population", "true ECE", "clusters", "ece", "ece_null", "p_calibrated ≤ 0.05"),
                _noise_rows(study) if study.noise else (),
            ),
        ),
        (
            "Looking again as rows arrive",
            f"Two equal runs, accuracy, {20 * LOOKS} clusters in the end, looked at after equal steps: percent with a "
            "verdict at any look.",
            _table(
                ("looks", "verdict"),
                ((str(looks), _percent(t.share(t.better))) for (looks,), t in sorted(study.looks.items())),
            ),
        ),
        (
            "Peers on the same pairs",
            f"Percent of equal pairs called different, at {sizes} clusters (independent rows: as many times {ROWS} "
            "rows). Only Steelyard is told the clusters.",
            _table(("", *ROW_POPULATIONS), _peer_rows(study) if study.peers else ()),
        ),
        ("Populations", "", [f"* **{p.name}** ({p.part}): {p.meaning}." for p in _distinct(drawn)]),
    ]
    kept = [s for s in sections if s[2] or not s[0]]
    parts = [part for head, text, body in kept for part in (head and f"### {head}", text, "\n".join(body)) if part]
    return "\n\n".join(parts) + "\n"


def _distinct(drawn: Sequence[Population | Pairing]) -> list[Population | Pairing]:
    return list({(p.name, p.meaning): p for p in drawn}.values())


def _table(heads: Sequence[str], rows: Rows) -> list[str]:
    """A Markdown table; nothing at all without rows."""
    body = [f"| {' | '.join(row)} |" for row in rows]
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *body] if body else []


def _several(shares: Iterable[float]) -> str:
    return " / ".join(map(_percent, shares))


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _alarm(share: float) -> str:
    return _percent(share) + (" ↑" if share > ALARMS else "")
