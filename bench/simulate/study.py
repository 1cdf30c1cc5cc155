"""The study: tables are drawn, evaluated and compared as a user would, and what intervals and verdicts did is counted.

Every replication has its own seed, derived from the study's seed, the population, the number of clusters and its
place, so the result depends neither on the number of processes nor on their order. Both editions see the same tables.
"""

from __future__ import annotations

import math
import os
import sys
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from typing import Any

import numpy as np

from bench.simulate import first_edition
from bench.simulate.peers import called_different
from bench.simulate.populations import (
    CLUSTERS,
    PAIRINGS,
    POPULATIONS,
    ROW_POPULATIONS,
    UNSAFE,
    Pairing,
    Population,
    Random,
    answer_pair,
    rows_pair,
)
from steelyard.decide.gate import Gate
from steelyard.study.comparison import compare
from steelyard.study.evaluation import evaluate, values

LEVEL = 0.95
ALPHA = 0.05
NOW, FIRST = "now", "first"
EDITIONS = (FIRST, NOW)
LOOKS = 10
CHUNK = 25  # replications in one task
LARGE = 2**32 - 1  # stands for the replication that gives the true values
PARTS = tuple(dict.fromkeys((*(p.part for p in (*POPULATIONS, *PAIRINGS)), "gate", "noise", "looks", "peers")))
GATE = "unsafe_answer_rate", 0.02  # a rule that should fail: high(metric) <= threshold
CALIBRATION = ("ece", "ece_null", "p_calibrated")


@dataclass(frozen=True)
class Plan:
    """How much is drawn, and of what. Without `clusters` every population has its own numbers of them."""

    replications: int = 500
    resamples: int = 1000
    truth_clusters: int = 250_000
    clusters: tuple[int, ...] = ()
    parts: tuple[str, ...] = PARTS
    seed: int = 1
    processes: int = 2


@dataclass
class Tally:
    """What was counted over replications. A missing interval holds nothing and misses on neither side."""

    replications: int = 0
    intervals: int = 0
    held: int = 0
    below: int = 0  # the truth lies below the interval
    above: int = 0
    positive: int = 0  # the interval lies above 0
    width: float = 0.0
    value: float = 0.0
    small_p: int = 0
    small_deciding_p: int = 0  # of what the verdict rests on, where that is another number
    better: int = 0
    worse: int = 0
    differs: int = 0
    silent: int = 0  # an interval without any note
    outside: int = 0  # an end beyond what a difference of shares can be

    def add(self, value: float | None, interval: tuple[float, float] | None, truth: float) -> None:
        """Count one estimate or delta."""
        self.replications += 1
        self.value += math.nan if value is None else value
        if interval is not None:
            low, high = interval
            self.intervals += 1
            self.held += low <= truth <= high
            self.below += truth < low
            self.above += truth > high
            self.positive += low > 0
            self.outside += low < -1 or high > 1
            self.width += high - low

    def judge(self, p_value: float | None, deciding: float | None, verdict: str, note: str) -> None:
        """Count what was said of a delta; `unchanged` and `inconclusive` claim nothing."""
        self.small_p += p_value is not None and p_value <= ALPHA
        self.small_deciding_p += deciding is not None and deciding <= ALPHA
        self.better += verdict == "better"
        self.worse += verdict == "worse"
        self.differs += verdict == "differs"
        self.silent += not note

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__))

    def share(self, count: float) -> float:
        return count / self.replications if self.replications else math.nan

    @property
    def coverage(self) -> float:
        return self.share(self.held)

    @property
    def missing(self) -> float:
        return self.share(self.replications - self.intervals)

    @property
    def verdicts(self) -> int:
        return self.better + self.worse + self.differs

    @property
    def mean_value(self) -> float:
        return self.share(self.value)

    @property
    def mean_width(self) -> float:
        return self.width / self.intervals if self.intervals else math.nan


Key = tuple[Any, ...]
Tallies = dict[Key, Tally]
Truths = Mapping[str, float]


def randomness(seed: int, what: str, clusters: int, replication: int) -> Random:
    """The random numbers of one replication."""
    return np.random.default_rng([seed, zlib.crc32(what.encode()), clusters, replication])


# -- what is counted -----------------------------------------------------------------------------------------------


def evaluations(
    population: Population,
    truths: Truths,
    clusters: int,
    part: range,
    plan: Plan,
    editions: Sequence[str] = EDITIONS,
    method: str = "auto",
) -> Tallies:
    """Intervals of every metric over some replications: (population, metric, clusters, edition)."""
    found: Tallies = {}
    names = population.metrics
    for replication in part:
        records = population.draw(randomness(plan.seed, population.name, clusters, replication), clusters)
        asked = {"resamples": plan.resamples, "seed": replication, "level": LEVEL}
        for edition in editions:
            if edition == FIRST:
                results: Any = first_edition.estimates(records, names, **asked).values()
            else:
                results = evaluate(records, names, method=method, **asked)
            for metric, estimate in zip(names, results, strict=True):
                tally = found.setdefault((population.name, metric, clusters, edition), Tally())
                tally.add(estimate.value, estimate.interval, truths[metric])
    return found


def comparisons(
    pairing: Pairing, truths: Truths, clusters: int, part: range, plan: Plan, editions: Sequence[str] = EDITIONS
) -> Tallies:
    """Deltas, p-values and verdicts over some replications: (pairing, metric, clusters, edition)."""
    found: Tallies = {}
    for replication in part:
        base, new = pairing.draw(randomness(plan.seed, f"{pairing.name} pair", clusters, replication), clusters)
        asked = {"resamples": plan.resamples, "seed": replication, "level": LEVEL}
        for metric in pairing.metrics:  # one metric a call: a verdict corrects for what is compared with it
            for edition in editions:
                if edition == FIRST:
                    delta: Any = first_edition.compared(base, new, metric, **asked)
                else:
                    delta = compare(base, new, metric, **asked)[metric]
                tally = found.setdefault((pairing.name, metric, clusters, edition), Tally())
                tally.add(delta.delta, delta.interval, truths[metric])
                tally.judge(delta.p_value, delta.p_adjusted, delta.verdict, delta.note)
    return found


def gates(clusters: int, part: range, plan: Plan) -> Tallies:
    """Failed rules whose p-value does not say so: `better` counts the failures, `worse` the contradictions among them.

    A rule fails where the 95% interval excludes its threshold: a one-sided p of at most 0.025.
    """
    metric, threshold = GATE
    gate = Gate.parse(f"high({metric}) <= {threshold}")
    found: Tallies = {(metric, clusters, edition): Tally() for edition in EDITIONS}
    for replication in part:
        records = UNSAFE.draw(randomness(plan.seed, "gate", clusters, replication), clusters)
        asked = {"resamples": plan.resamples, "seed": replication, "level": LEVEL}
        now = evaluate(records, metric, **asked)
        first = first_edition.estimates(records, [metric], **asked)[metric]
        judged = gate.check(now).rules[0]
        p_first = first_edition.gate_p(records, metric, threshold)
        for edition, interval, p in (
            (FIRST, first.interval, p_first),
            (NOW, now[metric].interval, judged.p_value),
        ):
            tally = found[metric, clusters, edition]
            tally.add(first.value, interval, UNSAFE.known[metric])
            failed = interval is not None and interval[0] > threshold
            tally.better += failed
            tally.worse += failed and p is not None and p > ALPHA / 2
    return found


def repeated_looks(part: range, plan: Plan) -> Tallies:
    """Verdicts on equal runs, looked at after each tenth of 200 clusters: (looks,) counts any verdict so far."""
    clusters, found = 20 * LOOKS, {(looks,): Tally() for looks in (1, 2, 5, LOOKS)}
    for replication in part:
        base, new = answer_pair(randomness(plan.seed, "looks", clusters, replication), clusters)
        arrived = np.arange(len(base)) // (len(base) // LOOKS)
        alarms = []
        for look in range(LOOKS):
            seen = arrived <= look
            result = compare(
                base.take(seen), new.take(seen), "accuracy", resamples=plan.resamples, seed=replication, level=LEVEL
            )
            alarms.append(result["accuracy"].verdict not in ("inconclusive", "unchanged"))
        for (looks,), tally in found.items():
            tally.replications += 1
            tally.better += any(alarms[LOOKS // looks - 1 :: LOOKS // looks])
    return found


def noise_alone(name: str, clusters: int, part: range, plan: Plan) -> Tallies:
    """What calibration metrics say over some replications: (population, metric, clusters)."""
    population = _named(POPULATIONS, name)
    found: Tallies = {(name, metric, clusters): Tally() for metric in CALIBRATION}
    for replication in part:
        records = population.draw(randomness(plan.seed, name, clusters, replication), clusters)
        for metric, estimate in zip(CALIBRATION, evaluate(records, CALIBRATION, resamples=100), strict=True):
            tally = found[name, metric, clusters]
            tally.add(estimate.value, estimate.interval, 0.0)
            tally.small_p += estimate.value is not None and estimate.value <= ALPHA
    return found


def peer_calls(kind: str, clusters: int, part: range, plan: Plan) -> Tallies:
    """Who calls equal runs different: (kind of rows, peer, clusters)."""
    found: Tallies = {}
    for replication in part:
        random = randomness(plan.seed, f"peers, {kind}", clusters, replication)
        for peer, different in called_different(rows_pair(random, clusters, kind), plan.resamples, random).items():
            tally = found.setdefault((kind, peer, clusters), Tally())
            tally.replications += 1
            tally.differs += different
    return found


# -- true values ---------------------------------------------------------------------------------------------------


def true_values(population: Population, plan: Plan) -> dict[str, float]:
    """What each metric is in the population: in closed form, else its value on one very large table."""
    asked = [metric for metric in population.metrics if metric not in population.known]
    if not asked:
        return dict(population.known)
    random = randomness(plan.seed, population.name, plan.truth_clusters, LARGE)
    return {**population.known, **values(asked, population.draw(random, plan.truth_clusters))}


def true_deltas(pairing: Pairing, plan: Plan) -> dict[str, float]:
    """The true differences: in closed form, else from one very large pair of runs."""
    asked = [metric for metric in pairing.metrics if metric not in pairing.known]
    if not asked:
        return dict(pairing.known)
    random = randomness(plan.seed, f"{pairing.name} pair", plan.truth_clusters, LARGE)
    base, new = (values(asked, table) for table in pairing.draw(random, plan.truth_clusters))
    return {**pairing.known, **{metric: new[metric] - base[metric] for metric in asked}}


# -- the whole -----------------------------------------------------------------------------------------------------


@dataclass
class Study:
    """All that was found, and under which plan."""

    plan: Plan
    truths: dict[str, Truths] = field(default_factory=dict)
    deltas: dict[str, Truths] = field(default_factory=dict)
    intervals: Tallies = field(default_factory=dict)
    pairs: Tallies = field(default_factory=dict)
    gates: Tallies = field(default_factory=dict)
    looks: Tallies = field(default_factory=dict)
    noise: Tallies = field(default_factory=dict)
    peers: Tallies = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def populations(self) -> list[Population]:
        return [p for p in POPULATIONS if p.part in self.plan.parts]

    @property
    def pairings(self) -> list[Pairing]:
        return [p for p in PAIRINGS if p.part in self.plan.parts]


def run(plan: Plan) -> Study:
    """The study, on several processes."""
    started = time.perf_counter()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # inherited by the processes: one thread each
    study = Study(plan)
    with get_context("spawn").Pool(plan.processes) as pool:
        named = [p.name for p in study.populations]
        if "noise" in plan.parts:
            named = list(dict.fromkeys((*named, "calibrated", "answers")))
        study.truths = dict(pool.starmap(_truths, [(name, plan) for name in named], chunksize=1))
        study.deltas = dict(pool.starmap(_deltas, [(p.name, plan) for p in study.pairings], chunksize=1))
        work = list(_tasks(study))
        for done, (kind, tallies) in enumerate(pool.imap_unordered(_perform, work), start=1):
            into: Tallies = getattr(study, kind)
            for key, tally in tallies.items():
                into[key] = into.get(key, Tally()) + tally
            _progress(done, len(work))
    study.seconds = time.perf_counter() - started
    return study


def clusters_of(drawn: Population | Pairing, plan: Plan) -> tuple[int, ...]:
    """With how many clusters it is drawn."""
    return plan.clusters or drawn.clusters


def _tasks(study: Study) -> Iterator[tuple[Any, ...]]:
    """What there is to do, tables with many clusters first."""
    plan = study.plan
    parts = [range(first, min(plan.replications, first + CHUNK)) for first in range(0, plan.replications, CHUNK)]
    usual = plan.clusters or CLUSTERS
    every = {c for p in (*study.populations, *study.pairings) for c in clusters_of(p, plan)} | {*usual}
    if "looks" in plan.parts:
        yield from (("looks", part, plan) for part in parts)
    for clusters in sorted(every, reverse=True):
        for part in parts:
            for population in study.populations:
                if clusters in clusters_of(population, plan):
                    yield "intervals", population.name, study.truths[population.name], clusters, part, plan
            for pairing in study.pairings:
                if clusters in clusters_of(pairing, plan):
                    yield "pairs", pairing.name, study.deltas[pairing.name], clusters, part, plan
            if clusters in usual and "gate" in plan.parts:
                yield "gates", clusters, part, plan
            if clusters in usual and "noise" in plan.parts:
                yield from (("noise", name, clusters, part, plan) for name in ("calibrated", "answers"))
            if clusters in usual and "peers" in plan.parts:
                yield from (("peers", kind, clusters, part, plan) for kind in ROW_POPULATIONS)


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
    others = {"gates": gates, "noise": noise_alone, "peers": peer_calls, "looks": repeated_looks}
    return kind, others[kind](*given)


def _named(things: Sequence[Any], name: str) -> Any:
    return next(thing for thing in things if thing.name == name)


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        print(f"\r{done}/{total} tasks", end=end, file=sys.stderr, flush=True)
