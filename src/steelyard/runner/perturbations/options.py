"""The same answers to choose from, listed in another order."""

from __future__ import annotations

from steelyard.ground.chance import Chance
from steelyard.runner.perturbations.contract import Altered, Shown, perturbation


@perturbation("reordered_options", "the labels to choose from are listed in another order")
def reordered_options(shown: Shown, chance: Chance) -> Altered:
    """Never in the same: an order that chance left as it was is turned by one."""
    if shown.options is None or len(shown.options) < 2:
        return Altered()
    order = tuple(chance.shuffled(shown.options))
    return Altered(options=order if order != shown.options else (*order[1:], order[0]))
