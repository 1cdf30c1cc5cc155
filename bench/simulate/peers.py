"""What others would say of two equal runs: is the new one different?

Every peer sees the same 0/1 answers of two runs on the same rows. None but Steelyard is told the clusters: that is
how these tests are used, and the point of the table. `evalstats` comes with the `bench` extra; `confidenceinterval`
is used if it happens to be installed, because it is published as source only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr
from scipy.stats import binomtest

from bench.simulate import first_edition
from bench.simulate.populations import Codes, Random, as_records
from steelyard.study.comparison import compare

Floats = npt.NDArray[np.float64]
Peer = Callable[[Codes, Floats, Floats, int, int], bool]

ALPHA = 0.05
EXACT = 25  # discordant rows up to which McNemar's test is exact


def unpaired(_: Codes, base: Floats, new: Floats, __: int, ___: int) -> bool:
    """A z-test of two standard errors, as if the runs had answered different questions."""
    se = math.hypot(base.std() / math.sqrt(len(base)), new.std() / math.sqrt(len(new)))
    return se > 0 and 2 * float(ndtr(-abs(new.mean() - base.mean()) / se)) <= ALPHA


def mcnemar(_: Codes, base: Floats, new: Floats, __: int, ___: int) -> bool:
    """McNemar's test on rows: exact for few discordant ones, else with the continuity correction."""
    won, lost = int((new > base).sum()), int((new < base).sum())
    if won + lost <= EXACT:
        return won + lost > 0 and float(binomtest(won, won + lost).pvalue) <= ALPHA
    return 2 * float(ndtr(-max(0.0, abs(won - lost) - 1) / math.sqrt(won + lost))) <= ALPHA


def row_bootstrap(_: Codes, base: Floats, new: Floats, resamples: int, seed: int) -> bool:
    """Percentiles of the paired difference when rows are drawn again; of a difference −1, 0, 1 by its three counts."""
    random = np.random.default_rng(seed)
    won, lost = float((new > base).mean()), float((new < base).mean())
    drawn = random.multinomial(len(base), [won, lost, max(0.0, 1 - won - lost)], resamples)
    low, high = np.percentile(drawn[:, 0] - drawn[:, 1], [100 * ALPHA / 2, 100 * (1 - ALPHA / 2)])
    return bool(low > 0 or high < 0)


def evalstats(_: Codes, base: Floats, new: Floats, resamples: int, seed: int) -> bool:
    """Its paired difference by the default method, with our number of resamples: does the interval exclude 0?"""
    from evalstats import pairwise_differences

    random = np.random.default_rng(seed)
    found = pairwise_differences(np.stack([new, base]), 0, 1, n_bootstrap=resamples, rng=random)
    return bool(found.ci_low > 0 or found.ci_high < 0)


def confidenceinterval(_: Codes, base: Floats, new: Floats, __: int, ___: int) -> bool:
    """Its interval of the accuracy of each run, as it comes: different if the two do not overlap."""
    from confidenceinterval import accuracy_score

    ones = np.ones(len(base))
    (_value, one), (_other, two) = (accuracy_score(ones, right) for right in (base, new))
    return bool(one[0] > two[1] or two[0] > one[1])


def steelyard_first(cluster: Codes, base: Floats, new: Floats, resamples: int, seed: int) -> bool:
    """The first edition's verdict."""
    sides = as_records(cluster, base), as_records(cluster, new)
    return first_edition.compared(*sides, "accuracy", resamples=resamples, seed=seed).verdict != "inconclusive"


def steelyard_now(cluster: Codes, base: Floats, new: Floats, resamples: int, seed: int) -> bool:
    """The present verdict."""
    sides = as_records(cluster, base), as_records(cluster, new)
    found = compare(*sides, "accuracy", resamples=resamples, seed=seed)["accuracy"]
    return found.verdict in ("better", "worse", "differs")


@cache
def peers() -> dict[str, Peer | None]:
    """Every peer by name; None stands for one that is not installed."""
    optional: dict[str, Any] = {"evalstats": evalstats, "confidenceinterval": confidenceinterval}
    return {
        "unpaired z-test": unpaired,
        "McNemar on rows": mcnemar,
        "row bootstrap": row_bootstrap,
        **{name: peer if find_spec(name) else None for name, peer in optional.items()},
        "first edition": steelyard_first,
        "steelyard": steelyard_now,
    }


def called_different(pair: tuple[Codes, Floats, Floats], resamples: int, random: Random) -> dict[str, bool]:
    """Who calls this pair of equal runs different."""
    seed = int(random.integers(2**31))
    return {name: peer(*pair, resamples, seed) for name, peer in peers().items() if peer is not None}
