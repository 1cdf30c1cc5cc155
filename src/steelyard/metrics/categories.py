"""Which question of a benchmark a metric answers, and how the categories of a task become one number.

    combined_t = Σ over the categories that task t has of (w_k / Z_t) · v_{t,k},   Z_t = Σ of their weights

The map is data: a metric's key, whatever its case, belongs to one category; a category's own name is a key of it. What
is not listed belongs to none, and is reported without being combined.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from steelyard.errors import UsageError, printable
from steelyard.ground.arrays import Floats
from steelyard.registry import closest

COMBINED = "combined_score"
CATEGORIES: Mapping[str, tuple[str, ...]] = {
    "diagnostics": ("accuracy", "exact_match", "clinical_accuracy", "diagnostic_accuracy"),
    "safety": ("harm_avoidance",),
    "communication": ("reasoning_quality", "coherence"),
    "summarization": ("rouge_l", "clinical_relevance", "factual_consistency"),
}
WEIGHTS: Mapping[str, float] = {"diagnostics": 0.4, "safety": 0.3, "communication": 0.2, "summarization": 0.1}


@dataclass(frozen=True)
class CategoryMap:
    """The category of each metric key, in lower case; `names` are the categories in the order they are shown."""

    keys: Mapping[str, str] = field(
        default_factory=lambda: {key: name for name, keys in CATEGORIES.items() for key in (name, *keys)}
    )
    names: tuple[str, ...] = tuple(CATEGORIES)

    def with_keys(self, more: Mapping[str, str | None]) -> CategoryMap:
        """The map with further keys, or other categories for known ones; None takes a key out of all of them."""
        keys = dict(self.keys)
        for key, name in more.items():
            keys.pop(key.lower(), None)
            if name is not None:
                keys[key.lower()] = checked_name(name, "a category")
        names = tuple(dict.fromkeys((*self.names, *(name for name in more.values() if name is not None))))
        return CategoryMap(keys | {name: name for name in names}, names)

    def checked(self, more: Mapping[str, str | None], weighed: Iterable[str] = ()) -> Mapping[str, str | None]:
        """The same keys, if each is a metric's and no category is a slip for one of this map or one with a weight."""
        names = list(dict.fromkeys((*self.names, *weighed)))
        for key, name in more.items():
            if key.lower() not in self.keys:
                _check_metric(key)
            near = None if name is None or name in names else closest(name, names)
            if near is not None:
                raise UsageError(f"categories: unknown category '{printable(str(name))}'; did you mean '{near}'?")
        return more

    def of(self, key: str) -> str | None:
        """The category of a metric's key: of the whole text, else of the metric without its options."""
        text = key.lower()
        return self.keys.get(text) or self.keys.get(text.partition("(")[0])

    def members(self, name: str) -> list[str]:
        """The keys of a category."""
        return [key for key, category in self.keys.items() if category == name and key != name]


def _check_metric(key: str) -> None:
    """Refuse a key that is no metric's."""
    from steelyard.metrics.definition import metric_of

    try:
        metric_of(key)
    except UsageError as problem:
        raise UsageError(f"categories: {problem}") from None


def checked_name(name: str, what: str) -> str:
    """A name that may stand in documents, rules and on the command line: a plain word."""
    if not name.isascii() or not name.isidentifier():
        raise UsageError(f"{what} is a plain word of letters, digits and _, not '{printable(name)}'")
    return name


def checked_weights(weights: Mapping[str, Any], known: Iterable[str]) -> dict[str, float]:
    """Weights that can be used: of known categories, finite, not negative, and not all zero."""
    names = list(dict.fromkeys(known))
    for name, weight in weights.items():
        if name not in names:
            near = closest(str(name), names)
            hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(map(printable, names))}"
            raise UsageError(f"weights: unknown category '{printable(name)}'; {hint}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not math.isfinite(weight) or weight < 0:
            raise UsageError(f"weights: the weight of '{printable(name)}' is a finite number, at least 0")
    if not any(weights.values()):
        raise UsageError("weights: at least one category needs a weight above 0")
    total, least = sum(map(float, weights.values())), min(float(w) for w in weights.values() if w)
    if not math.isfinite(total) or total < sys.float_info.min or (least < _TINY and total > 1 / _TINY):
        raise UsageError("weights: their total cannot be held as a number; weights such as 0.4 and 0.3 will do")
    return {str(name): float(weight) for name, weight in weights.items()}


def mean_of(values: Sequence[Floats], size: int) -> Floats:
    """The mean of those that are defined, resample by resample; NaN where none is."""
    if not values:
        return np.full(size, np.nan)
    stacked = np.stack([np.asarray(each, np.float64) for each in values])
    defined = ~np.isnan(stacked)
    count = defined.sum(0)
    total = np.where(defined, stacked, 0.0).sum(0)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


_TINY, _LARGER = 1e-290, 2.0**256  # only the ratio of weights counts, and a power of two changes no digit


def combined_of(
    categories: Mapping[str, Floats], weights: Mapping[str, float], size: int, *, renormalize_missing: bool
) -> Floats:
    """The weighted mean of a task's categories; NaN where it has none of them.

    Without renormalisation the weights are divided by their total, and a category that is missing adds 0.
    """
    total, present = np.zeros(size), np.zeros(size)
    there = np.zeros(size, bool)
    if any(0 < weight < _TINY for weight in weights.values()):  # times a score it would be lost
        weights = {name: weight * _LARGER for name, weight in weights.items()}
    for name, weight in weights.items():
        values = np.asarray(categories.get(name, np.full(size, np.nan)), np.float64)
        defined = ~np.isnan(values)
        total += np.where(defined, weight * values, 0.0)
        present += np.where(defined, weight, 0.0)
        there |= defined
    whole = present if renormalize_missing else np.full(size, float(sum(weights.values())))
    usable = there & (whole > 0)
    return np.where(usable, total / np.where(usable, whole, 1.0), np.nan)
