"""Naive oracles: every metric once more, in plain loops over row dicts, from the written definitions alone.

Sources: SEMANTICS (sections 1-6, 10-12), trec_eval's manual, the documents on selective prediction, run metrics and
abstention. Nothing here looks at the package; None stands for "undefined". `NAIVE` maps the text of a metric to its
oracle.
"""

from __future__ import annotations

from tests.support.naive.benchmark import BENCHMARK
from tests.support.naive.groups import (
    BASES,
    GROUPS_LABELS,
    GROUPS_NUMBERS,
    PERTURBED_LABELS,
    PERTURBED_NUMBERS,
    REPEATS_LABELS,
    REPEATS_NUMBERS,
)
from tests.support.naive.table import Oracle
from tests.support.naive.texts import TEXTS

NAIVE: dict[str, Oracle] = {
    **BASES,
    **BENCHMARK,
    **GROUPS_LABELS,
    **GROUPS_NUMBERS,
    **REPEATS_LABELS,
    **REPEATS_NUMBERS,
    **PERTURBED_LABELS,
    **PERTURBED_NUMBERS,
    **TEXTS,
}
