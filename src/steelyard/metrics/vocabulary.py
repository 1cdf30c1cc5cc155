"""The closed vocabularies in which a definition states its facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Better = Literal["higher", "lower"]
Bounds = tuple[float | None, float | None]
Population = Literal["asked", "answered", "all"]  # the rows that count; "asked" are all but failed ones
# how an interval is made where the kind of evidence does not say: a jackknife's t, with its skewness, on a log scale
Spread = Literal["", "t", "t-skewed", "log-t"]
OverGroups = Literal[
    "", "gap", "gaps", "ratio", "worst", "disparity", "one"
]  # how an interval follows from those of the groups
FROM_PAIRS = ("gap", "ratio")  # groups are held against each other: areas up to a coverage that all reach
FROM_ALL_GROUPS = ("gap", "gaps", "ratio", "worst")  # what a single group without a value puts in doubt
Situation = Literal[  # what a table holds, for which metrics are computed where none was asked for
    "numbers",
    "labels",
    "classes",
    "unparsed replies",
    "failed rows",
    "labels to defer",
    "confidences",
    "confidences of two labels",
    "ranked answers",
    "latencies",
    "scores",
]

UNIT: Bounds = (0, 1)
CUTOFF = "@"  # at the end of a name: the metric that is meant where a cutoff follows
AS_BASE: Any = ("as base", "as base")
WIDTH_OF_BASE: Any = (0, "width of base")


@dataclass(frozen=True)
class Default:
    """That a metric is computed where none was asked for: in which situation, at which place among the others.

    `label` and `options` are the form that is meant, such as {"bins": 15}; by default the metric as it is.
    """

    situation: Situation
    place: int
    label: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
