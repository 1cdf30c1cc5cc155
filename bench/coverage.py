"""How often does a 95% interval hold the true value? `make coverage`, or `python -m bench.coverage`.

Tables are drawn from made-up populations whose true value is known, evaluated and compared by the library as a user
would, and the intervals that hold the truth are counted. Every replication has its own seed, derived from the study's
seed, the population, the number of clusters and its place, so the result depends neither on the number of processes
nor on their order.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import expit, ndtri

from steelyard.comparison import compare
from steelyard.evaluation import evaluate, value
from steelyard.records.table import Records

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Random = np.random.Generator

LEVEL = 0.95
METHODS = ("auto", "percentile", "bca")
CLUSTERS = (20, 50, 200)
ROWS = 8  # a cluster
LOW = 0.93  # a coverage below is marked; with few clusters, below LOW_FEW
LOW_FEW = 0.92
FEW = 20
ALARMS = 0.055  # a false-alarm rate above is marked
LOOKS = 10
PLANTED = ("planted", "found", "wrong", "holds it")  # heads of what a planted difference gave
CHUNK = 25  # replications in one task
LARGE = 2**32 - 1  # stands for the replication that gives the true values


# -- populations ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Population:
    """Where tables come from: `draw(random, clusters)` gives one, `known` holds true values in closed form."""

    name: str
    meaning: str
    draw: Callable[[Random, int], Records]
    metrics: tuple[str, ...]
    known: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Pairing:
    """Where pairs of runs come from: `draw(random, clusters, gain)`; without a gain the two are exchangeable."""

    name: str
    meaning: str
    draw: Callable[[Random, int, float], tuple[Records, Records]]
    metrics: tuple[str, ...]
    gain: float


@dataclass(frozen=True)
class Questions:
    """What two runs share: the clusters, how easy each item is, its right answer, its site."""

    cluster: Codes
    ease: Floats
    target: Codes
    should_abstain: npt.NDArray[np.bool_]
    site: Codes


_LABELS = pa.array(["a", "b", "c"])


def _questions(random: Random, clusters: int) -> Questions:
    """Items of clusters that differ in ease and in which answers are common; the site of a cluster means nothing."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    size = len(cluster)
    ease = random.normal(0, 0.7, clusters)[cluster] + random.normal(0, 1, size)
    leaning = np.log([0.5, 0.3, 0.2]) + random.normal(0, 0.6, (clusters, 3))
    target = np.argmax(leaning[cluster] + random.gumbel(size=(size, 3)), 1)
    should_abstain = ease + random.normal(0, 0.5, size) < -1.2
    return Questions(cluster, ease, target, should_abstain, np.arange(clusters)[cluster] % 3)


def _run(random: Random, asked: Questions, *, gain: float = 0.0, decimals: int | None = 1) -> Records:
    """One model's answers: harder items are declined more often; confidences are informative but too high.

    A gain makes the model faster and right more often, its confidences more telling and less exaggerated.
    """
    size = len(asked.cluster)
    own = random.normal(0, 0.4, asked.cluster[-1] + 1)[asked.cluster]
    skill = 1.0 + gain + asked.ease + own
    correct = random.random(size) < expit(skill)
    wrong = (asked.target + random.integers(1, 3, size)) % 3
    declined = random.random(size) < expit(-2.2 - 0.9 * asked.ease)
    stated = expit(0.6 * (1 - gain) + 1.2 * skill + (1 - gain) * random.normal(0, 1, size))
    confidence = stated if decimals is None else np.round(stated, decimals)
    latency = np.exp(6 - 0.4 * gain + 0.5 * own - 0.2 * asked.ease + 0.6 * random.normal(size=size))
    return _records(
        asked.cluster,
        target=_LABELS.take(pa.array(asked.target)),
        prediction=_LABELS.take(pa.array(np.where(correct, asked.target, wrong), mask=declined)),
        confidence=confidence,
        should_abstain=asked.should_abstain,
        latency_ms=latency,
        **{"group.site": _LABELS.take(pa.array(asked.site))},
    )


def _records(cluster: Codes, **columns: Any) -> Records:
    return Records.from_columns({"item": np.arange(len(cluster)), "cluster": cluster, **columns})


def _answers(random: Random, clusters: int) -> Records:
    return _run(random, _questions(random, clusters))


def _untied(random: Random, clusters: int) -> Records:
    return _run(random, _questions(random, clusters), decimals=None)


def _answer_pair(random: Random, clusters: int, gain: float) -> tuple[Records, Records]:
    asked = _questions(random, clusters)
    return _run(random, asked), _run(random, asked, gain=gain)


def _numbers(random: Random, clusters: int) -> Records:
    """Normal targets, and normal errors that a cluster shares in part."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    target = random.normal(0, 0.7, clusters)[cluster] + random.normal(0, 1, len(cluster))
    error = random.normal(0, 0.35, clusters)[cluster] + random.normal(0, 0.7, len(cluster))
    return _records(cluster, target=target, prediction=target + error)


def _skewed_pair(random: Random, clusters: int, gain: float) -> tuple[Records, Records]:
    """Two runs that estimate the same skewed numbers; how large an error is depends on item and cluster."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    size = len(cluster)
    target = np.exp(1 + random.normal(0, 0.4, clusters)[cluster] + random.normal(0, 0.5, size))
    hardness = np.exp(random.normal(0, 0.4, clusters)[cluster] + random.normal(0, 0.3, size))
    tables = []
    for factor in (1.0, math.exp(-gain)):
        error = hardness * (random.normal(0, 0.5, clusters)[cluster] + random.normal(0, 1, size))
        tables.append(_records(cluster, target=target, prediction=target + factor * error))
    return tables[0], tables[1]


def _skewed(random: Random, clusters: int) -> Records:
    return _skewed_pair(random, clusters, 0.0)[0]


def _correct_with(
    random: Random, cluster: Codes, share: Floats | float, common: Floats, alike: float
) -> npt.NDArray[np.bool_]:
    """Correct with exactly this probability in every row; `alike` is what the rows of a cluster share (a copula)."""
    return math.sqrt(alike) * common + math.sqrt(1 - alike) * random.normal(size=len(cluster)) < ndtri(share)


def _rare(random: Random, clusters: int) -> Records:
    cluster = np.repeat(np.arange(clusters), ROWS)
    common = random.normal(size=clusters)[cluster]
    correct = _correct_with(random, cluster, 0.99, common, alike=0.4)
    return _records(
        cluster,
        target=_LABELS.take(pa.array(np.zeros(len(cluster), int))),
        prediction=_LABELS.take(pa.array(1 - correct)),
    )


def _calibrated_run(random: Random, cluster: Codes, shared: Floats) -> Records:
    """Every confidence of the grid 0.05, 0.15, …, 0.95 is the probability of being right: the true ECE is 0."""
    confidence = (random.integers(0, 10, len(cluster)) + 0.5) / 10
    correct = _correct_with(random, cluster, confidence, shared, alike=0.15)
    return _records(
        cluster,
        target=_LABELS.take(pa.array(np.zeros(len(cluster), int))),
        prediction=_LABELS.take(pa.array(1 - correct)),
        confidence=confidence,
    )


def _calibrated_pair(random: Random, clusters: int, _: float) -> tuple[Records, Records]:
    cluster = np.repeat(np.arange(clusters), ROWS)
    shared = random.normal(size=clusters)[cluster]
    return _calibrated_run(random, cluster, shared), _calibrated_run(random, cluster, shared)


def _calibrated(random: Random, clusters: int) -> Records:
    return _calibrated_pair(random, clusters, 0.0)[0]


_GAP = "fairness_gap(accuracy, by=group.site)"

POPULATIONS = (
    Population(
        "answers",
        "three labels; clusters differ in ease and in their labels; confidences on the grid 0, 0.1, …, 1, informative "
        "and too high; harder items are declined more often; skewed latencies; sites that mean nothing",
        _answers,
        (
            "accuracy",
            "selective_accuracy",
            "balanced_accuracy",
            "f1_macro",
            "auroc",
            "aurc",
            "augrc",
            "eaurc",
            "risk_at(c=0.5)",
            "ece",
            "brier",
            "deferral_balanced",
            _GAP,
            "latency.p50",
            "latency.p95",
        ),
        {_GAP: 0.0},
    ),
    Population(
        "untied",
        "as `answers`, with confidences of full precision",
        _untied,
        ("auroc", "aurc", "eaurc", "risk_at(c=0.5)"),
    ),
    Population("rare", "99% correct; the errors gather in few clusters", _rare, ("accuracy",), {"accuracy": 0.99}),
    Population(
        "calibrated",
        "every confidence is the probability of being right; correct answers correlate within clusters",
        _calibrated,
        ("ece",),
        {"ece": 0.0},
    ),
    Population(
        "numbers",
        "normal targets, and normal errors that a cluster shares in part",
        _numbers,
        ("mae", "rmse", "pearson", "spearman"),
    ),
    Population(
        "skewed",
        "log-normal targets; errors that a cluster shares in part, with log-normal sizes",
        _skewed,
        ("mae", "rmse", "pearson", "spearman"),
    ),
)

PAIRINGS = (
    Pairing(
        "answers",
        "two runs on the same items, each with its own effect on every cluster",
        _answer_pair,
        ("accuracy", "f1_macro", "auroc", "aurc", "ece", "risk_at(c=0.5)", "latency.p50", "latency.p95"),
        gain=0.5,
    ),
    Pairing("calibrated", "two calibrated runs", _calibrated_pair, ("ece",), gain=0.0),
    Pairing("skewed", "two runs that estimate the same skewed numbers", _skewed_pair, ("mae",), gain=0.2),
)


# -- the study -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Plan:
    """How much is drawn."""

    replications: int = 500
    resamples: int = 1000
    truth_clusters: int = 250_000
    clusters: tuple[int, ...] = CLUSTERS
    seed: int = 1
    processes: int = 2


@dataclass
class Tally:
    """What was counted over replications."""

    replications: int = 0
    held: int = 0
    intervals: int = 0
    width: float = 0.0
    value: float = 0.0
    small_p: int = 0
    better: int = 0
    worse: int = 0

    def add(self, value: float | None, interval: tuple[float, float] | None, truth: float) -> None:
        """Count one estimate; an interval that is missing holds nothing."""
        self.replications += 1
        self.value += math.nan if value is None else value
        if interval is not None:
            self.intervals += 1
            self.held += interval[0] <= truth <= interval[1]
            self.width += interval[1] - interval[0]

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def share(self, count: int) -> float:
        return count / self.replications if self.replications else math.nan

    @property
    def coverage(self) -> float:
        return self.share(self.held)

    @property
    def mean_value(self) -> float:
        return self.value / self.replications if self.replications else math.nan

    @property
    def mean_width(self) -> float:
        return self.width / self.intervals if self.intervals else math.nan


Key = tuple[Any, ...]
Tallies = dict[Key, Tally]
Truths = Mapping[str, float]


def randomness(seed: int, what: str, clusters: int, replication: int) -> Random:
    """The random numbers of one replication."""
    return np.random.default_rng([seed, zlib.crc32(what.encode()), clusters, replication])


def evaluations(
    population: Population,
    truths: Truths,
    clusters: int,
    part: range,
    plan: Plan,
    methods: Sequence[str] = METHODS,
) -> Tallies:
    """Intervals of every metric and method over some replications: (population, metric, clusters, method)."""
    found: Tallies = {}
    for replication in part:
        records = population.draw(randomness(plan.seed, population.name, clusters, replication), clusters)
        for method in methods:
            result = evaluate(
                records, population.metrics, resamples=plan.resamples, seed=replication, level=LEVEL, method=method
            )
            for metric, estimate in zip(population.metrics, result, strict=True):
                tally = found.setdefault((population.name, metric, clusters, method), Tally())
                tally.add(estimate.value, estimate.interval, truths[metric])
    return found


def comparisons(pairing: Pairing, gain: float, truths: Truths, clusters: int, part: range, plan: Plan) -> Tallies:
    """Deltas, p-values and verdicts over some replications: (pairing, metric, clusters, planted or not)."""
    found: Tallies = {}
    for replication in part:
        random = randomness(plan.seed, f"{pairing.name} pair, gain {gain}", clusters, replication)
        base, new = pairing.draw(random, clusters, gain)
        for metric in pairing.metrics:  # one metric a call: a verdict corrects for what is compared with it
            delta = compare(base, new, metric, resamples=plan.resamples, seed=replication, level=LEVEL)[metric]
            tally = found.setdefault((pairing.name, metric, clusters, gain > 0), Tally())
            tally.add(delta.delta, delta.interval, truths[metric])
            tally.small_p += delta.p_value is not None and delta.p_value <= 1 - LEVEL
            tally.better += delta.verdict == "better"
            tally.worse += delta.verdict == "worse"
    return found


def repeated_looks(part: range, plan: Plan) -> Tallies:
    """Verdicts on equal runs, looked at after each tenth of 200 clusters: (looks,) counts any verdict so far."""
    clusters, found = 20 * LOOKS, {(looks,): Tally() for looks in (1, 2, 5, LOOKS)}
    for replication in part:
        base, new = _answer_pair(randomness(plan.seed, "looks", clusters, replication), clusters, 0.0)
        arrived = np.arange(len(base)) // (len(base) // LOOKS)
        alarms = []
        for look in range(LOOKS):
            seen = arrived <= look
            result = compare(
                base.take(seen), new.take(seen), "accuracy", resamples=plan.resamples, seed=replication, level=LEVEL
            )
            alarms.append(result["accuracy"].verdict != "inconclusive")
        for (looks,), tally in found.items():
            tally.replications += 1
            tally.better += any(alarms[LOOKS // looks - 1 :: LOOKS // looks])
    return found


def noise_alone(population: Population, clusters: int, part: range, plan: Plan) -> Tallies:
    """What calibration metrics say over some replications: (population, metric, clusters)."""
    metrics = ("ece", "ece_null", "p_calibrated")
    found: Tallies = {(population.name, metric, clusters): Tally() for metric in metrics}
    for replication in part:
        records = population.draw(randomness(plan.seed, population.name, clusters, replication), clusters)
        for metric, estimate in zip(metrics, evaluate(records, metrics, resamples=100), strict=True):
            tally = found[population.name, metric, clusters]
            tally.add(estimate.value, estimate.interval, 0.0)
            tally.small_p += estimate.value is not None and estimate.value <= 1 - LEVEL
    return found


def true_values(population: Population, plan: Plan) -> dict[str, float]:
    """What each metric is in the population: in closed form, else its value on one very large table."""
    asked = [metric for metric in population.metrics if metric not in population.known]
    records = population.draw(randomness(plan.seed, population.name, plan.truth_clusters, LARGE), plan.truth_clusters)
    return {**population.known, **{metric: value(metric, records) for metric in asked}}


def true_deltas(pairing: Pairing, plan: Plan) -> dict[str, float]:
    """The planted differences, from one very large pair of runs."""
    random = randomness(plan.seed, f"{pairing.name} pair", plan.truth_clusters, LARGE)
    base, new = pairing.draw(random, plan.truth_clusters, pairing.gain)
    return {metric: value(metric, new) - value(metric, base) for metric in pairing.metrics}


@dataclass
class Study:
    """All that was found, and under which plan."""

    plan: Plan
    truths: dict[str, dict[str, float]]
    deltas: dict[str, dict[str, float]]
    intervals: Tallies
    pairs: Tallies
    looks: Tallies
    noise: Tallies
    seconds: float = 0.0


def run(plan: Plan) -> Study:
    """The whole study, on several processes."""
    started = time.perf_counter()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # inherited by the processes: one thread each
    with get_context("spawn").Pool(plan.processes) as pool:
        truths = dict(pool.starmap(_truths, [(p.name, plan) for p in POPULATIONS], chunksize=1))
        deltas = dict(pool.starmap(_deltas, [(p.name, plan) for p in PAIRINGS if p.gain > 0], chunksize=1))
        study = Study(plan, truths, deltas, {}, {}, {}, {})
        work = _tasks(plan, truths, deltas)
        for done, (kind, tallies) in enumerate(pool.imap_unordered(_perform, work), start=1):
            into: Tallies = getattr(study, kind)
            for key, tally in tallies.items():
                into[key] = into.get(key, Tally()) + tally
            _progress(done, len(work))
    study.seconds = time.perf_counter() - started
    return study


def _tasks(plan: Plan, truths: Mapping[str, Truths], deltas: Mapping[str, Truths]) -> list[tuple[Any, ...]]:
    """What there is to do, the longest first."""
    work: list[tuple[Any, ...]] = []
    paired = _parts(2 * plan.replications)
    work += [("looks", part, plan) for part in paired]
    for clusters in sorted(plan.clusters, reverse=True):
        for population in POPULATIONS:
            for part in _parts(plan.replications):
                work.append(("intervals", population.name, truths[population.name], clusters, part, plan))
        for part in _parts(max(1, plan.replications // 2)):
            work += [("noise", name, clusters, part, plan) for name in ("calibrated", "answers")]
        for pairing in PAIRINGS:
            nothing = dict.fromkeys(pairing.metrics, 0.0)
            work += [("pairs", pairing.name, 0.0, nothing, clusters, part, plan) for part in paired]
            if pairing.gain > 0:
                for part in _parts(plan.replications):
                    work.append(("pairs", pairing.name, pairing.gain, deltas[pairing.name], clusters, part, plan))
    return work


def _parts(replications: int) -> list[range]:
    return [range(first, min(replications, first + CHUNK)) for first in range(0, replications, CHUNK)]


def _truths(name: str, plan: Plan) -> tuple[str, dict[str, float]]:
    return name, true_values(_named(POPULATIONS, name), plan)


def _deltas(name: str, plan: Plan) -> tuple[str, dict[str, float]]:
    return name, true_deltas(_named(PAIRINGS, name), plan)


def _perform(task: tuple[Any, ...]) -> tuple[str, Tallies]:
    """One task, in a process of its own: populations travel by name, because functions do not."""
    kind, *given = task
    if kind == "intervals":
        return kind, evaluations(_named(POPULATIONS, given[0]), *given[1:])
    if kind == "pairs":
        return kind, comparisons(_named(PAIRINGS, given[0]), *given[1:])
    if kind == "noise":
        return kind, noise_alone(_named(POPULATIONS, given[0]), *given[1:])
    return kind, repeated_looks(*given)


def _named(things: Sequence[Any], name: str) -> Any:
    return next(thing for thing in things if thing.name == name)


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done}/{total} tasks", end=end, file=sys.stderr, flush=True)


# -- the page ------------------------------------------------------------------------------------------------------


def rendered(study: Study) -> str:
    """The study as a Markdown page."""
    plan = study.plan
    error = 100 * math.sqrt(LEVEL * (1 - LEVEL) / plan.replications)
    sections = (
        (
            "",
            f"{plan.replications} replications a cell (paired without a difference, and looks: "
            f"{2 * plan.replications}; noise in ECE: {max(1, plan.replications // 2)}), {plan.resamples} resamples, "
            f"{ROWS} rows a cluster, seed {plan.seed}. True values: closed form, or one draw of "
            f"{plan.truth_clusters * ROWS:,} rows. "
            f"A coverage of 95% has a standard error of {error:.1f} points.",
            [f"* **{p.name}**: {p.meaning}." for p in POPULATIONS],
        ),
        (
            "Coverage of 95% intervals",
            "Percent of the intervals that hold the true value, and their mean width; ↓ marks less than "
            f"{100 * LOW:.0f}% ({100 * LOW_FEW:.0f}% at {FEW} clusters). *mean*: of the values. *none*: percent of the "
            "tables without an interval, which count as misses, by method.",
            _table(
                ("metric", "population", "true", "clusters", "mean", *(f"{m} | width" for m in METHODS), "none"),
                _interval_rows(study),
            ),
        ),
        (
            "Noise in ECE",
            "Means over tables, and the percent with p_calibrated ≤ 0.05.",
            _table(
                ("population", "true ECE", "clusters", "ece", "ece_null", "p_calibrated ≤ 0.05"), _noise_rows(study)
            ),
        ),
        (
            "Paired comparisons",
            f"Without a difference: percent with p ≤ 0.05 and with a verdict (↑ marks more than {100 * ALARMS:.1f}%), "
            "percent of the delta's intervals that hold 0, and their mean width. With a planted difference: percent "
            "with the right verdict, with the wrong one, and of the intervals that hold the difference. "
            + "; ".join(f"**{p.name}**: {p.meaning}" for p in PAIRINGS)
            + ".",
            _table(
                ("metric", "population", "clusters", "p ≤ 0.05", "verdict", "holds 0", "width", *PLANTED),
                _pair_rows(study),
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
    )
    parts = [part for head, text, body in sections for part in (head and f"### {head}", text, "\n".join(body)) if part]
    return "\n\n".join(parts) + "\n"


def _interval_rows(study: Study) -> Iterable[tuple[str, ...]]:
    for population in POPULATIONS:
        for metric in population.metrics:
            for clusters in study.plan.clusters:
                tallies = [study.intervals[population.name, metric, clusters, method] for method in METHODS]
                truth = f"{study.truths[population.name][metric]:.4g}"
                shown = [f"{_marked(t.coverage, clusters)} | {t.mean_width:.3g}" for t in tallies]
                missing = [t.replications - t.intervals for t in tallies]
                none = " / ".join(_percent(t.share(m)) for t, m in zip(tallies, missing, strict=True))
                yield (
                    metric,
                    population.name,
                    truth,
                    str(clusters),
                    f"{tallies[0].mean_value:.4g}",
                    *shown,
                    none if any(missing) else "",
                )


def _noise_rows(study: Study) -> Iterable[tuple[str, ...]]:
    for name in ("calibrated", "answers"):
        for clusters in study.plan.clusters:
            ece, null, p = (study.noise[name, m, clusters] for m in ("ece", "ece_null", "p_calibrated"))
            shown = [f"{t.mean_value:.3g}" for t in (ece, null)]
            yield name, f"{study.truths[name]['ece']:.3g}", str(clusters), *shown, _percent(p.share(p.small_p))


def _pair_rows(study: Study) -> Iterable[tuple[str, ...]]:
    for pairing in PAIRINGS:
        for metric in pairing.metrics:
            for clusters in study.plan.clusters:
                equal = study.pairs[pairing.name, metric, clusters, False]
                alarms = [_alarm(equal.share(equal.small_p)), _alarm(equal.share(equal.better + equal.worse))]
                shown = [*alarms, _marked(equal.coverage, clusters), f"{equal.mean_width:.3g}"]
                other = study.pairs.get((pairing.name, metric, clusters, True))
                if other is not None:
                    delta = study.deltas[pairing.name][metric]
                    shown += [f"{delta:+.3g}", *(_percent(other.share(n)) for n in (other.better, other.worse))]
                    shown.append(_marked(other.coverage, clusters))
                yield metric, pairing.name, str(clusters), *shown, *[""] * (4 + len(PLANTED) - len(shown))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    columns = sum(head.count("|") + 1 for head in heads)
    return [f"| {' | '.join(heads)} |", "|" + "---|" * columns, *(f"| {' | '.join(row)} |" for row in rows)]


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _marked(coverage: float, clusters: int) -> str:
    return _percent(coverage) + (" ↓" if coverage < (LOW_FEW if clusters <= FEW else LOW) else "")


def _alarm(share: float) -> str:
    return _percent(share) + (" ↑" if share > ALARMS else "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the study and print its page."""
    parser = argparse.ArgumentParser(prog="python -m bench.coverage", description=__doc__)
    parser.add_argument("--replications", type=int, help="tables drawn for each cell (500)")
    parser.add_argument("--resamples", type=int, help="resamples of each table (1000)")
    parser.add_argument("--clusters", type=int, nargs="+", default=CLUSTERS, help="clusters in a table (20 50 200)")
    parser.add_argument("--seed", type=int, default=Plan.seed)
    parser.add_argument("--processes", type=int, default=Plan.processes)
    parser.add_argument("--quick", action="store_true", help="a glance in seconds: too few replications to judge by")
    parser.add_argument("--out", type=Path, help="also write the page to this file")
    asked = parser.parse_args(arguments)
    usual = Plan(16, 300, 20_000) if asked.quick else Plan()
    plan = Plan(
        asked.replications or usual.replications,
        asked.resamples or usual.resamples,
        usual.truth_clusters,
        tuple(asked.clusters),
        asked.seed,
        asked.processes,
    )
    study = run(plan)
    page = rendered(study)
    if asked.out is not None:
        asked.out.write_text(page, encoding="utf-8")
    print(page, end="")
    print(f"{study.seconds:.0f} s on {plan.processes} processes", file=sys.stderr)


if __name__ == "__main__":
    main()
