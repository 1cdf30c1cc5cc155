"""Made-up populations whose true values are known: friendly ones, and hostile ones that a design can fail on.

A `Population` draws tables, a `Pairing` draws pairs of runs on the same questions. Both belong to a named part of the
study, say how many clusters they are drawn with, and hold true values in closed form where there is one; the others
are read off one very large draw.

The hostile clusters have 1 to 60 rows, the large ones are harder, and half of what makes an item easy is shared by its
cluster. They are our own invention, as the friendly ones are: holding on them is a good sign, not a proof.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.special import expit, ndtri

from steelyard.metrics import metrics as registry
from steelyard.records.table import Records

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Random = np.random.Generator
Pair = tuple[Records, Records]

CLUSTERS = (20, 50, 200)
FEWER = (20, 50)  # for what takes long
ROWS = 8  # of a friendly cluster
LARGEST = 60  # rows of a hostile one
GAP = "fairness_gap(accuracy, by=group.site)"
WORST = "worst_group(accuracy, by=group.site)"
STABLE = ("stability(accuracy).stddev", "stability(accuracy).cv", "stability_score(accuracy)")


@dataclass(frozen=True)
class Population:
    """Where tables come from: `draw(random, clusters)` gives one, `known` holds true values in closed form."""

    name: str
    part: str
    meaning: str
    draw: Callable[[Random, int], Records]
    metrics: tuple[str, ...]
    known: Mapping[str, float] = field(default_factory=dict)
    clusters: tuple[int, ...] = CLUSTERS


@dataclass(frozen=True)
class Pairing:
    """Where pairs of runs come from. `equal`: the true difference is 0, because the runs are exchangeable or by design.

    `planted`: a difference that should be found. With neither, only the interval is judged.
    """

    name: str
    part: str
    meaning: str
    draw: Callable[[Random, int], Pair]
    metrics: tuple[str, ...]
    equal: bool = False
    planted: bool = False
    known: Mapping[str, float] = field(default_factory=dict)
    clusters: tuple[int, ...] = CLUSTERS


# -- questions and runs --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Questions:
    """What two runs share: the clusters, how easy each item is, its right answer, its site."""

    cluster: Codes
    ease: Floats
    target: Codes
    should_abstain: Flags
    site: Codes


_LABELS = pa.array([*"abcdefghij"])


def _records(cluster: Codes, **columns: Any) -> Records:
    return Records.from_columns({"item": np.arange(len(cluster)), "cluster": cluster, **columns})


def _friendly(random: Random, clusters: int, between: float = 0.49, within: float = 1.0) -> Questions:
    """Clusters of eight that differ in ease and in which answers are common; the site of a cluster means nothing."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    ease = _shared(random, cluster, math.sqrt(between)) + random.normal(0, math.sqrt(within), len(cluster))
    return _asked(random, cluster, ease, np.arange(clusters)[cluster] % 3)


def _hostile(random: Random, clusters: int) -> Questions:
    """Clusters of 1 to 60; the large ones are harder; half of the variance of ease lies between clusters."""
    cluster, hardness = _uneven(random, clusters)
    ease = 0.86 * random.normal(size=len(cluster)) - 0.86 * hardness[cluster]
    return _asked(random, cluster, ease, np.arange(clusters)[cluster] % 3)


def _uneven(random: Random, clusters: int) -> tuple[Codes, Floats]:
    """Rows of clusters with 1 to 60 of them, log-uniform, and each cluster's hardness (variance 1), half of it size."""
    place = random.random(clusters)
    sizes = np.clip(np.round(LARGEST**place), 1, LARGEST).astype(int)
    size_effect = (place - 0.5) * math.sqrt(12)
    hardness = math.sqrt(0.5) * (size_effect + random.normal(size=clusters))
    return np.repeat(np.arange(clusters), sizes), hardness


def _shared(random: Random, cluster: Codes, scale: float) -> Floats:
    """A normal effect that the rows of a cluster share."""
    return random.normal(0, scale, cluster[-1] + 1)[cluster]


def _asked(random: Random, cluster: Codes, ease: Floats, site: Codes) -> Questions:
    size = len(cluster)
    leaning = np.log([0.5, 0.3, 0.2]) + random.normal(0, 0.6, (cluster[-1] + 1, 3))
    target = np.argmax(leaning[cluster] + random.gumbel(size=(size, 3)), 1)
    should_abstain = ease + random.normal(0, 0.5, size) < -1.2
    return Questions(cluster, ease, target, should_abstain, site)


def _run(random: Random, asked: Questions, *, gain: float = 0.0, decimals: int | None = 1) -> Records:
    """One model's answers: harder items are declined more often; confidences are informative but too high.

    A gain makes the model faster and right more often, its confidences more telling and less exaggerated.
    """
    size = len(asked.cluster)
    own = _shared(random, asked.cluster, 0.4)
    skill = 1.0 + gain + asked.ease + own
    correct = random.random(size) < expit(skill)
    wrong = (asked.target + random.integers(1, 3, size)) % 3
    declined = random.random(size) < expit(-2.2 - 0.9 * asked.ease)
    stated = expit(0.6 * (1 - gain) + 1.2 * skill + (1 - gain) * random.normal(0, 1, size))
    latency = np.exp(6 - 0.4 * gain + 0.5 * own - 0.2 * asked.ease + 0.6 * random.normal(size=size))
    return _records(
        asked.cluster,
        target=_LABELS.take(pa.array(asked.target)),
        prediction=_LABELS.take(pa.array(np.where(correct, asked.target, wrong), mask=declined)),
        confidence=stated if decimals is None else np.round(stated, decimals),
        should_abstain=asked.should_abstain,
        latency_ms=latency,
        **{"group.site": _LABELS.take(pa.array(asked.site))},
    )


Asking = Callable[[Random, int], Questions]


def _one_run(random: Random, clusters: int, *, ask: Asking = _friendly, decimals: int | None = 1) -> Records:
    return _run(random, ask(random, clusters), decimals=decimals)


def answer_pair(random: Random, clusters: int, *, ask: Asking = _friendly, gain: float = 0.0) -> Pair:
    """Two runs on the same items; without a gain they are exchangeable."""
    asked = ask(random, clusters)
    return _run(random, asked), _run(random, asked, gain=gain)


_strong = partial(_friendly, between=2.5, within=0.3)


def _answered(cluster: Codes, correct: Flags, **columns: Any) -> Records:
    """Rows whose target is always a and whose answer is a or b."""
    target = _LABELS.take(pa.array(np.zeros(len(cluster), int)))
    return _records(cluster, target=target, prediction=_LABELS.take(pa.array(1 - correct)), **columns)


def _correct_with(random: Random, share: Floats | float, common: Floats, alike: float) -> Flags:
    """Correct with exactly this probability in every row; `alike` is what rows share through `common` (a copula)."""
    return math.sqrt(alike) * common + math.sqrt(1 - alike) * random.normal(size=len(common)) < ndtri(share)


def _rare_errors(random: Random, clusters: int) -> Records:
    cluster = np.repeat(np.arange(clusters), ROWS)
    return _answered(cluster, _correct_with(random, 0.99, _shared(random, cluster, 1.0), alike=0.4))


# -- groups and repeats --------------------------------------------------------------------------------------------


def _in_groups(
    random: Random,
    clusters: int,
    *,
    shares: Sequence[float],
    right: Sequence[float] | float = 0.7,
    cut: bool = False,
    even: bool = False,
) -> Records:
    """Groups of these shares, as whole clusters or cutting through them; a cluster of average hardness is right in
    `right` of its rows. Large clusters are harder, so that the rows together are right less often.
    """
    if even:
        cluster = np.repeat(np.arange(clusters), ROWS)
        hardness = random.normal(size=clusters)
    else:
        cluster, hardness = _uneven(random, clusters)
    edges = np.cumsum(shares)[:-1]
    places = random.random(len(cluster)) if cut else ((np.arange(clusters) + 0.5) / clusters)[cluster]
    site = np.searchsorted(edges, places)
    correct = _correct_with(random, np.broadcast_to(right, len(shares))[site], hardness[cluster], alike=0.5)
    return _answered(cluster, correct, **{"group.site": _LABELS.take(pa.array(site))})


TWO, FIVE = (0.8, 0.2), (0.4, 0.25, 0.15, 0.12, 0.08)
STANDING_BY = (0.46, 0.46, 0.04, 0.04)  # two large groups, and two tiny ones between them
_gap_beside_tiny = partial(_in_groups, shares=STANDING_BY, right=(0.8, 0.5, 0.65, 0.65))
_gap_of_five = partial(_in_groups, shares=FIVE, right=(0.8, 0.75, 0.7, 0.65, 0.5))


def _group_pair(random: Random, clusters: int, *, shares: Sequence[float]) -> Pair:
    """Two exchangeable runs whose groups do not differ."""
    cluster, hardness = _uneven(random, clusters)
    site = np.searchsorted(np.cumsum(shares)[:-1], ((np.arange(clusters) + 0.5) / clusters)[cluster])
    columns = {"group.site": _LABELS.take(pa.array(site))}
    rights = [_correct_with(random, 0.7, hardness[cluster], alike=0.5) for _ in range(2)]
    return _answered(cluster, rights[0], **columns), _answered(cluster, rights[1], **columns)


def _repeated(random: Random, clusters: int, *, repeats: int = 5) -> Records:
    """Items asked five times; what one answer is, the next may not be, but no repeat is better than another."""
    item = np.repeat(np.arange(clusters), repeats)
    correct = random.random(len(item)) < expit(0.8 + 1.5 * random.normal(size=clusters)[item])
    return Records.from_columns(
        {
            "item": item,
            "repeat": np.tile(np.arange(repeats), clusters),
            "target": _LABELS.take(pa.array(np.zeros(len(item), int))),
            "prediction": _LABELS.take(pa.array(1 - correct)),
        }
    )


# -- parts that sit in few clusters --------------------------------------------------------------------------------

HOLDERS = 0.15  # the clusters that hold the scarce part


def _scarce_questions(random: Random, clusters: int, *, even: bool = True) -> Questions:
    """Only 15% of the clusters hold items that should be declined, and only they hold the label c."""
    if even:
        cluster, hardness = np.repeat(np.arange(clusters), ROWS), random.normal(size=clusters)
    else:
        cluster, hardness = _uneven(random, clusters)
    size = len(cluster)
    holder = (np.arange(clusters) < HOLDERS * clusters)[cluster]
    ease = random.normal(0, 0.8, size) - hardness[cluster]
    scarce = holder & (random.random(size) < 0.5)
    target = np.where(scarce, 2, random.random(size) < 0.4)
    return Questions(cluster, ease, target, scarce, np.zeros(size, int))


def _scarce_run(random: Random, asked: Questions) -> Records:
    """Declines what it should, and else what is hard; the clusters decide most of either."""
    size = len(asked.cluster)
    skill = 0.8 + asked.ease + _shared(random, asked.cluster, 0.5)
    correct = random.random(size) < expit(skill)
    caution = _shared(random, asked.cluster, 2.0) - 0.5 * asked.ease
    declined = random.random(size) < expit(np.where(asked.should_abstain, 0.8, -2.0) + caution)
    wrong = (asked.target + random.integers(1, 3, size)) % 3
    return _records(
        asked.cluster,
        target=_LABELS.take(pa.array(asked.target)),
        prediction=_LABELS.take(pa.array(np.where(correct, asked.target, wrong), mask=declined)),
        should_abstain=asked.should_abstain,
    )


def _scarce(random: Random, clusters: int, *, even: bool = True) -> Records:
    return _scarce_run(random, _scarce_questions(random, clusters, even=even))


def _scarce_pair(random: Random, clusters: int, *, even: bool = True) -> Pair:
    asked = _scarce_questions(random, clusters, even=even)
    return _scarce_run(random, asked), _scarce_run(random, asked)


def _rare_class(random: Random, clusters: int) -> Records:
    """Hostile clusters; one row in forty is of the third class, wherever it falls."""
    asked = _hostile(random, clusters)
    size = len(asked.cluster)
    target = np.where(random.random(size) < 0.025, 2, random.random(size) < 0.3)
    return _run(random, Questions(asked.cluster, asked.ease, target, asked.should_abstain, asked.site))


# -- numbers -------------------------------------------------------------------------------------------------------


def _numbers(random: Random, clusters: int) -> Records:
    """Normal targets, and normal errors that a cluster shares in part."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    target = _shared(random, cluster, 0.7) + random.normal(0, 1, len(cluster))
    error = _shared(random, cluster, 0.35) + random.normal(0, 0.7, len(cluster))
    return _records(cluster, target=target, prediction=target + error)


def _skewed_pair(random: Random, clusters: int, *, gain: float = 0.0) -> Pair:
    """Two runs that estimate the same skewed numbers; how large an error is depends on item and cluster."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    size = len(cluster)
    target = np.exp(1 + _shared(random, cluster, 0.4) + random.normal(0, 0.5, size))
    hardness = np.exp(_shared(random, cluster, 0.4) + random.normal(0, 0.3, size))
    tables = []
    for factor in (1.0, math.exp(-gain)):
        error = hardness * (_shared(random, cluster, 0.5) + random.normal(0, 1, size))
        tables.append(_records(cluster, target=target, prediction=target + factor * error))
    return tables[0], tables[1]


def _skewed(random: Random, clusters: int) -> Records:
    return _skewed_pair(random, clusters)[0]


TAIL = 0.6  # deviation of the logarithm of an error, between clusters and again within them


def _heavy(random: Random, clusters: int) -> Records:
    """Log-normal errors of either sign, their size shared by the cluster in part; log-normal latencies alike."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    size = len(cluster)
    target = random.normal(0, 2, size)
    error = np.exp(_shared(random, cluster, TAIL) + random.normal(0, TAIL, size)) * random.choice([-1, 1], size)
    latency = np.exp(6 + _shared(random, cluster, 1.0) + random.normal(0, 1.0, size))
    return _records(cluster, target=target, prediction=target + error, latency_ms=latency)


HEAVY_TRUTH = {
    "mae": math.exp(TAIL**2),
    "rmse": math.exp(2 * TAIL**2),
    "pearson": math.sqrt(4 / (4 + math.exp(4 * TAIL**2))),
    "latency.p95": math.exp(6 + math.sqrt(2) * float(ndtri(0.95))),
}
SHAPE = 3.0  # of Pareto's tail: the fourth moment does not exist


def _pareto(random: Random, clusters: int) -> Records:
    """Errors with Pareto's tail, all rows of a cluster scaled by one Pareto number."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    scale = (random.random(clusters) ** (-1 / SHAPE))[cluster]
    error = scale * random.exponential(size=len(cluster))
    target = random.normal(size=len(cluster))
    return _records(cluster, target=target, prediction=target + error)


PARETO_TRUTH = {"mae": SHAPE / (SHAPE - 1), "rmse": math.sqrt(2 * SHAPE / (SHAPE - 2))}


def _overconfident(random: Random, clusters: int) -> Records:
    """Nearly always right and sure of it; where a cluster goes wrong, it does so with great confidence."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    confidence = np.round(expit(3.5 + random.normal(0, 0.7, len(cluster))), 2)
    right = 0.97 + 0 * confidence
    correct = _correct_with(random, right, _shared(random, cluster, 1.0), alike=0.5)
    return _answered(cluster, correct, confidence=confidence)


# -- calibration ---------------------------------------------------------------------------------------------------


MIDDLE, MOST, ALL = (2, 8), (1, 10), (0, 10)  # bins of a tenth


def _stated_run(random: Random, cluster: Codes, common: Floats, shift: float, bins: tuple[int, int]) -> Records:
    """A confidence in the middle of a bin that exceeds the probability of being right by exactly `shift`."""
    confidence = (random.integers(*bins, len(cluster)) + 0.5) / 10
    correct = _correct_with(random, confidence - shift, common, alike=0.15)
    return _answered(cluster, correct, confidence=confidence)


def _stated_pair(
    random: Random, clusters: int, *, base: float, new: float, bins: tuple[int, int] = MIDDLE, rows: int = ROWS
) -> Pair:
    cluster = np.repeat(np.arange(clusters), rows)
    common = _shared(random, cluster, 1.0)
    return _stated_run(random, cluster, common, base, bins), _stated_run(random, cluster, common, new, bins)


_calibrated_pair = partial(_stated_pair, base=0.0, new=0.0, bins=ALL)


def _calibrated(random: Random, clusters: int) -> Records:
    return _calibrated_pair(random, clusters)[0]


def _scales_pair(random: Random, clusters: int) -> Pair:
    """The new run's confidences tell more, on another scale: nearly all of them lie above 0.9."""
    asked = _friendly(random, clusters)
    size = len(asked.cluster)
    tables = []
    for noise, stretch, offset in ((1.6, 1.0, 0.0), (0.7, 0.5, 4.0)):
        skill = 0.8 + asked.ease + _shared(random, asked.cluster, 0.3)
        correct = random.random(size) < expit(skill)
        confidence = expit(offset + stretch * (skill + noise * random.normal(size=size)))
        tables.append(_answered(asked.cluster, correct, confidence=confidence))
    return tables[0], tables[1]


# -- rare differences ----------------------------------------------------------------------------------------------


def _losing(random: Random, clusters: int, *, share: float) -> Pair:
    """The base run is right throughout; the new one loses whole clusters, each with this probability."""
    cluster = np.repeat(np.arange(clusters), 4)
    lost = (random.random(clusters) < share)[cluster]
    return _answered(cluster, np.ones(len(cluster), bool)), _answered(cluster, ~lost)


def _losing_labels(random: Random, clusters: int, *, share: float) -> Pair:
    """Three labels; both runs answer alike, but in some clusters the new one gets everything wrong."""
    asked = _friendly(random, clusters)
    size = len(asked.cluster)
    lost = (random.random(clusters) < share)[asked.cluster]
    correct = random.random(size) < expit(1.5 + asked.ease)
    wrong = (asked.target + random.integers(1, 3, size)) % 3
    tables = []
    for right in (correct, correct & ~lost):
        answer = _LABELS.take(pa.array(np.where(right, asked.target, wrong)))
        tables.append(_records(asked.cluster, target=_LABELS.take(pa.array(asked.target)), prediction=answer))
    return tables[0], tables[1]


def _turned(random: Random, clusters: int, *, share: float) -> Pair:
    """From all wrong to nearly all right."""
    cluster = np.arange(clusters)
    return _answered(cluster, np.zeros(clusters, bool)), _answered(cluster, random.random(clusters) < share)


def _one_bad_cluster(random: Random, clusters: int) -> Pair:
    """Every error of either run stands in the first cluster: without it there is no area under a curve."""
    cluster = np.repeat(np.arange(clusters), ROWS)
    tables = []
    for _ in range(2):
        correct = (cluster > 0) | (random.random(len(cluster)) < 0.5)
        correct[0] = False
        tables.append(_answered(cluster, correct, confidence=random.random(len(cluster))))
    return tables[0], tables[1]


_GAINS = [[None] * rank + [1] for rank in range(20)]  # one relevant document after so many others


def _rankings(rank: Codes) -> Records:
    gains = pa.array(_GAINS, pa.list_(pa.int64())).take(pa.array(rank))
    judged = pa.array([[1]], pa.list_(pa.int64())).take(pa.array(np.zeros(len(rank), int)))
    return Records.from_columns({"item": np.arange(len(rank)), "gains": gains, "judged": judged})


def _near_bound(random: Random, queries: int, *, share: float = 0.02) -> Records:
    """A perfect ranking for all but 2% of the queries, which find their document on rank 8."""
    return _rankings(np.where(random.random(queries) < share, 7, 0))


def _nearly_constant(random: Random, queries: int, *, share: float = 0.02) -> Records:
    """The document stands second for all but 2% of the queries, which find it on rank 16."""
    return _rankings(np.where(random.random(queries) < share, 15, 1))


def _graded_pair(random: Random, queries: int) -> Pair:
    """Rankings of which the new run improves one query in seven by a rank and spoils one in thirty: about +0.02."""
    rank = np.minimum(19, np.floor(np.exp(random.normal(0.6, 0.8, queries))).astype(int))
    chance = random.random(queries)
    moved = np.where(chance < 0.15, -1, np.where(chance > 0.97, 1, 0))
    return _rankings(rank), _rankings(np.clip(rank + moved, 0, 19))


def _orders_pair(random: Random, queries: int, *, documents: int = 10) -> Pair:
    """Orders of ten documents, some relevant; the new run sees a little more of what is relevant, in every query."""
    relevant = random.random((queries, documents)) < 0.3
    relevant[:, 0] = True
    shared = random.normal(size=(queries, documents))
    tables = []
    for signal in (0.8, 0.94):
        score = signal * relevant + shared + 0.3 * random.normal(size=(queries, documents))
        found = np.take_along_axis(relevant, np.argsort(-score, 1), 1).astype(int)
        lists = [
            pa.ListArray.from_arrays(np.arange(0, queries * documents + 1, documents, np.int32), grades.ravel())
            for grades in (found, relevant.astype(int))
        ]
        tables.append(Records.from_columns({"item": np.arange(queries), "gains": lists[0], "judged": lists[1]}))
    return tables[0], tables[1]


# -- gates ---------------------------------------------------------------------------------------------------------


def _unsafe(random: Random, clusters: int) -> Records:
    """One item a cluster that should be declined, and is but for one in eight."""
    answered = random.random(clusters) < 0.125
    zeros = np.zeros(clusters, int)
    return _records(
        np.arange(clusters),
        target=_LABELS.take(pa.array(zeros)),
        prediction=_LABELS.take(pa.array(zeros, mask=~answered)),
        should_abstain=np.ones(clusters, bool),
    )


UNSAFE = Population(
    "unsafe",
    "gate",
    "items that should be declined, of which one in eight is answered; the rule allows one in fifty",
    _unsafe,
    ("unsafe_answer_rate",),
    {"unsafe_answer_rate": 0.125},
)


# -- the lists -----------------------------------------------------------------------------------------------------

# The debiased form came with the second edition. A shift of s in every bin makes it s² in the population.
CALIBRATED = ("ece", "calibration_error2") if "calibration_error2" in registry else ("ece",)
SEVERAL = ("accuracy", "selective_accuracy", "balanced_accuracy", "f1_macro", "auroc", "aurc", "brier")
SCARCE = ("deferral_balanced", "balanced_accuracy", "f1_macro")

POPULATIONS = (
    Population(
        "answers",
        "friendly",
        "three labels; clusters of 8 differ in ease and in their labels; confidences on the grid 0, 0.1, …, 1, "
        "informative and too high; harder items are declined more often; skewed latencies; three sites "
        "that mean nothing",
        _one_run,
        (*SEVERAL, "augrc", "eaurc", "risk_at(c=0.5)", "ece", "deferral_balanced", GAP, "latency.p95"),
        {GAP: 0.0},
    ),
    Population(
        "untied",
        "friendly",
        "as `answers`, with confidences of full precision",
        partial(_one_run, decimals=None),
        ("auroc", "risk_at(c=0.5)"),
        clusters=FEWER,
    ),
    Population(
        "rare",
        "friendly",
        "99% correct; the errors gather in few clusters",
        _rare_errors,
        ("accuracy",),
        {"accuracy": 0.99},
    ),
    Population(
        "calibrated",
        "friendly",
        "every confidence is the probability of being right; correct answers correlate within clusters",
        _calibrated,
        CALIBRATED,
        {"ece": 0.0, "calibration_error2": 0.0},
    ),
    Population(
        "numbers",
        "friendly",
        "normal targets, and normal errors that a cluster shares in part",
        _numbers,
        ("mae", "rmse", "pearson"),
    ),
    Population(
        "skewed",
        "friendly",
        "log-normal targets; errors that a cluster shares in part, with log-normal sizes",
        _skewed,
        ("mae", "rmse", "pearson"),
    ),
    Population("skewed ranks", "friendly", "as `skewed`", _skewed, ("spearman",), clusters=FEWER),
    Population(
        "uneven",
        "hostile",
        "as `answers`, with clusters of 1 to 60 rows, the large ones harder, half of the variance between clusters",
        partial(_one_run, ask=_hostile),
        (*SEVERAL, "ece", "deferral_balanced"),
    ),
    Population(
        "strong",
        "hostile",
        "as `answers`, with nearly all of the variance of ease between clusters",
        partial(_one_run, ask=_strong),
        ("accuracy", "f1_macro", "auroc", "brier"),
    ),
    Population(
        "rare class",
        "deferral",
        "uneven clusters; one row in forty is of the third class",
        _rare_class,
        ("balanced_accuracy", "f1_macro"),
    ),
    Population(
        "scarce",
        "deferral",
        "the items that should be declined, and one label, sit in 15% of the clusters",
        _scarce,
        SCARCE,
    ),
    Population(
        "scarce, uneven",
        "deferral",
        "as `scarce`, with clusters of 1 to 60 rows, the large ones harder",
        partial(_scarce, even=False),
        SCARCE,
    ),
    Population(
        "80:20",
        "fairness",
        "uneven clusters in two groups of 80% and 20% of them; no true gap",
        partial(_in_groups, shares=TWO),
        (GAP,),
        {GAP: 0.0},
    ),
    Population(
        "five groups",
        "fairness",
        "uneven clusters in five groups of 40, 25, 15, 12 and 8%; no true gap",
        partial(_in_groups, shares=FIVE),
        (GAP,),
        {GAP: 0.0},
    ),
    Population(
        "cut 80:20",
        "fairness",
        "as `80:20`, with groups that cut through clusters",
        partial(_in_groups, shares=TWO, cut=True),
        (GAP,),
        {GAP: 0.0},
    ),
    Population(
        "cut five",
        "fairness",
        "as `five groups`, with groups that cut through clusters",
        partial(_in_groups, shares=FIVE, cut=True),
        (GAP,),
        {GAP: 0.0},
    ),
    Population(
        "tiny groups",
        "fairness",
        "uneven clusters in two large groups with a gap of about a third, and two tiny ones between them",
        _gap_beside_tiny,
        (GAP,),
    ),
    Population(
        "a real gap",
        "fairness",
        "uneven clusters in five groups of 40, 25, 15, 12 and 8%, the smallest worst by about a third",
        _gap_of_five,
        (GAP,),
    ),
    *(
        Population(
            f"{count} equal groups",
            "worst",
            f"clusters of 8 in {count} groups that are all right in 70%",
            partial(_in_groups, shares=(1 / count,) * count, even=True),
            (WORST,),
            {WORST: 0.7},
            clusters=(60, 200),
        )
        for count in (3, 6, 10)
    ),
    Population(
        "repeats",
        "cv",
        "items asked five times; no repeat is better than another",
        _repeated,
        STABLE,
        dict(zip(STABLE, (0.0, 0.0, 1.0), strict=True)),
    ),
    Population(
        "heavy",
        "skew",
        "log-normal errors of either sign and log-normal latencies, their size shared by the cluster in part",
        _heavy,
        ("mae", "rmse", "pearson", "latency.p95"),
        HEAVY_TRUTH,
    ),
    Population(
        "Pareto",
        "skew",
        "errors scaled by one number a cluster with Pareto's tail (shape 3)",
        _pareto,
        ("mae", "rmse"),
        PARETO_TRUTH,
    ),
    Population(
        "overconfident",
        "skew",
        "97% right and sure of it; where a cluster goes wrong, it does so with great confidence",
        _overconfident,
        ("brier",),
    ),
    Population(
        "near the bound",
        "sparse",
        "a perfect ranking for all but 2% of the queries",
        _near_bound,
        ("ndcg",),
        {"ndcg": 1 - 0.02 * (1 - 1 / math.log2(9))},
        clusters=(20, 60, 200),
    ),
    Population(
        "nearly constant",
        "sparse",
        "the same ranking, not a perfect one, for all but 2% of the queries",
        _nearly_constant,
        ("ndcg",),
        {"ndcg": 0.98 / math.log2(3) + 0.02 / math.log2(17)},
        clusters=(20, 60, 200),
    ),
)


def _zeros(metrics: Sequence[str]) -> dict[str, float]:
    return dict.fromkeys(metrics, 0.0)


_PLANTED = ("accuracy", "f1_macro", "auroc", "aurc", "ece", "risk_at(c=0.5)")
_PAIRED = (*_PLANTED, "latency.p95")
_SWAPPED = ("accuracy", "f1_macro", "auroc", "aurc", "ece", "risk_at(c=0.5)", "latency.p95", GAP)
LOSSES = (0.03, 0.05, 0.10, 0.20)

PAIRINGS = (
    Pairing(
        "answers",
        "friendly",
        "two runs on the same items of `answers`, each with its own effect on every cluster",
        answer_pair,
        _PAIRED,
        equal=True,
        known=_zeros(_PAIRED),
    ),
    Pairing(
        "calibrated",
        "friendly",
        "two calibrated runs",
        _calibrated_pair,
        CALIBRATED,
        equal=True,
        known={"ece": 0.0, "calibration_error2": 0.0},
    ),
    Pairing(
        "skewed",
        "friendly",
        "two runs that estimate the same skewed numbers",
        _skewed_pair,
        ("mae",),
        equal=True,
        known={"mae": 0.0},
    ),
    Pairing(
        "better answers",
        "friendly",
        "as `answers`, the new run better and faster",
        partial(answer_pair, gain=0.5),
        _PLANTED,
        planted=True,
    ),
    Pairing(
        "better numbers",
        "friendly",
        "as `skewed`, the new run's errors a fifth smaller",
        partial(_skewed_pair, gain=0.2),
        ("mae", "rmse"),
        planted=True,
    ),
    Pairing(
        "uneven",
        "swap",
        "two equal runs on uneven clusters",
        partial(answer_pair, ask=_hostile),
        _SWAPPED,
        equal=True,
        known=_zeros(_SWAPPED),
    ),
    Pairing(
        "skewed squares",
        "swap",
        "two equal runs that estimate the same skewed numbers",
        _skewed_pair,
        ("rmse",),
        equal=True,
        known={"rmse": 0.0},
    ),
    Pairing(
        "equal groups",
        "swap",
        "two equal runs in groups of 80% and 20%, without a gap",
        partial(_group_pair, shares=TWO),
        (GAP,),
        equal=True,
        known={GAP: 0.0},
    ),
    Pairing(
        "scarce",
        "deferral",
        "two equal runs; one part sits in 15% of the clusters",
        _scarce_pair,
        SCARCE,
        equal=True,
        known=_zeros(SCARCE),
    ),
    Pairing(
        "one bad cluster",
        "swap",
        "every error of either run stands in one cluster",
        _one_bad_cluster,
        ("auroc",),
        equal=True,
        known={"auroc": 0.0},
        clusters=(50,),
    ),
    *(
        Pairing(
            f"{100 * share:.0f}% lose",
            "sparse",
            f"right throughout; the new run loses {100 * share:.0f}% of the clusters",
            partial(_losing, share=share),
            ("accuracy",),
            known={"accuracy": -share},
            clusters=(20, 50, 100, 120, 200),
        )
        for share in LOSSES
    ),
    Pairing(
        "labels lose",
        "sparse",
        "three labels; the new run gets everything wrong in 3% of the clusters",
        partial(_losing_labels, share=0.03),
        ("f1_macro",),
    ),
    Pairing(
        "turned",
        "sparse",
        "from all wrong to all right in 99% of the clusters",
        partial(_turned, share=0.99),
        ("accuracy",),
        planted=True,
        known={"accuracy": 0.99},
        clusters=(20, 60, 200),
    ),
    Pairing(
        "graded",
        "sparse",
        "rankings, of which one in seven is a rank better and one in thirty a rank worse",
        _graded_pair,
        ("ndcg",),
        planted=True,
        clusters=(20, 50, 100),
    ),
    Pairing(
        "orders",
        "sparse",
        "orders of ten documents, nearly all of them a little better or worse",
        _orders_pair,
        ("ndcg",),
        planted=True,
        clusters=(20, 50, 100),
    ),
    Pairing(
        "over and under",
        "ece",
        "one run overconfident by 0.1, the other underconfident by 0.1: equal for different reasons",
        partial(_stated_pair, base=0.1, new=-0.1),
        CALIBRATED,
        equal=True,
        known={"ece": 0.0, "calibration_error2": 0.0},
    ),
    Pairing(
        "calibrated better",
        "ece",
        "overconfident by 0.12, then by 0.04",
        partial(_stated_pair, base=0.12, new=0.04),
        CALIBRATED,
        planted=True,
        known={"ece": -0.08, "calibration_error2": 0.04**2 - 0.12**2},
    ),
    Pairing(
        "calibrated at last",
        "ece",
        "overconfident by 0.08, then calibrated; two rows a cluster, so that ECE is mostly noise",
        partial(_stated_pair, base=0.08, new=0.0, bins=MOST, rows=2),
        CALIBRATED,
        planted=True,
        known={"ece": -0.08, "calibration_error2": -(0.08**2)},
    ),
    Pairing(
        "other scales",
        "swap",
        "the new run's confidences tell more, and lie on another scale",
        _scales_pair,
        ("auroc",),
        planted=True,
    ),
)

# What the peers see: equal runs of 0/1 answers, by row. Independent rows are clusters of their own.
ROW_POPULATIONS = {"independent rows": 0.0, "clusters of 8": 0.5, "uneven clusters": None}


def rows_pair(random: Random, clusters: int, kind: str) -> tuple[Codes, Floats, Floats]:
    """Two equal runs as plain arrays: the cluster of each row, and whether either run was right (0 or 1).

    A run has an effect of its own on every cluster, so that its rows differ from the other run's together.
    """
    alike = ROW_POPULATIONS[kind]
    if alike is None:
        cluster, hardness = _uneven(random, clusters)
        common, alike = -hardness[cluster], 0.5
    else:
        cluster = np.repeat(np.arange(clusters), ROWS) if alike else np.arange(clusters * ROWS)
        common = _shared(random, cluster, 1.0)
    sides = []
    for _ in range(2):
        own = math.sqrt(0.5) * (common + _shared(random, cluster, 1.0))
        sides.append(_correct_with(random, 0.7, own, alike).astype(float))
    return cluster, sides[0], sides[1]


def as_records(cluster: Codes, right: Floats) -> Records:
    """The same answers as a table."""
    return _answered(cluster, right == 1)
