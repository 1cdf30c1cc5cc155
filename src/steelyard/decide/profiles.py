"""Documented rules by the name of their profile, and the documented keys that they are about.

Another room or a plug-in adds a profile of its own with `profiles.add("mine", ("low(accuracy) >= 0.8",))`.
"""

from __future__ import annotations

from steelyard.errors import UsageError, printable
from steelyard.registry import Registry, load_entry_points

EVALUATORS = ("CosineSimilarityEvaluator", "MarginEvaluator", "NdcgEvaluator", "MrrEvaluator")
_RANK = ("NdcgEvaluator.delta >= -0.005", "MrrEvaluator.delta >= -0.005")

profiles: Registry[tuple[str, ...]] = Registry("gate profile")
profiles.add("rank", _RANK)
profiles.add("rank+cosine", (*_RANK, "CosineSimilarityEvaluator.delta >= 0"))


def rules_of(name: str) -> tuple[str, ...]:
    """The rules of a profile; a name that nobody registered is an error that lists the others."""
    if name not in profiles:
        load_entry_points()
    if name not in profiles:
        raise UsageError(f"unknown gate profile '{printable(name)}'; known: {', '.join(profiles)}")
    return profiles[name]
