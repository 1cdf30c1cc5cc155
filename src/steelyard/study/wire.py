"""The wire form of comparisons, and what evaluations' is read back by; `selective` and `calibration` have their own.

Non-finite numbers are never written: they become null, and a note says why. Equal inputs and settings give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.ground.json import head, plain
from steelyard.metrics import metrics as registry
from steelyard.naming import slice_text
from steelyard.records.labels import value_name
from steelyard.study.comparison import Comparison
from steelyard.study.evaluation import Evaluation
from steelyard.study.ranked_lists import Ranked
from steelyard.uncertainty.weights import scheme
from steelyard.uncertainty.wire import delta_document, estimate_document


def evaluation_document(evaluation: Evaluation) -> dict[str, Any]:
    """`evaluation.json`."""
    return {
        **head("evaluation"),
        "inputs": [source.to_dict() for source in evaluation.sources],
        "population": dict(evaluation.population),
        "uncertainty": {
            **evaluation.settings.to_dict(),
            "weights": scheme(evaluation.clusters, evaluation.settings.stream),
            "cluster": list(evaluation.cluster),
            "clusters": evaluation.clusters,
        },
        "estimates": [estimate_document(e) for e in evaluation],
        "warnings": list(evaluation.warnings),
    }


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """`comparison.json`."""
    return {
        **head("comparison"),
        "inputs": {side: [source.to_dict() for source in sources] for side, sources in comparison.sources.items()},
        "population": plain(comparison.population),
        "unmatched": plain(comparison.unmatched),
        "uncertainty": {**comparison.settings.to_dict(), "cluster": list(comparison.cluster)},
        "deltas": [delta_document(d) for d in comparison],
        "warnings": list(comparison.warnings),
    }


def ranking_document(ranked: Ranked, *, ties: str, complete: bool, relevance_level: int) -> dict[str, Any]:
    """An evaluation's document for rankings: how they were ordered, and the deltas where there are two runs."""
    about = {"ties": ties, "complete": complete, "relevance_level": relevance_level}
    document = {**ranked.evaluation.to_dict(), "ranking": about}
    if ranked.comparison is not None:
        document["comparison"] = comparison_document(ranked.comparison)
    return document


# -- flat keys ---------------------------------------------------------------------------------------------------------

_SLICE_ORDER = ("model", "strategy", "task", "perturbation")


def documented_names() -> dict[str, str]:
    """The metric that each documented key means, where the key is not the metric's own name."""
    return {known.documented_as: known.name for known in registry.values() if known.documented_as}


def flat_key(metric: str, slice_: Mapping[str, Any]) -> str:
    """The key of a number in `run.json` and the index: the metric, and its slice where it has one."""
    known = [c for c in _SLICE_ORDER if c in slice_]
    rest = [c for c in slice_ if c not in known]
    return metric + slice_text({c: value_name(slice_[c]) for c in (*known, *sorted(rest))})
