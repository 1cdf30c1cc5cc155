"""Few-shot: solved examples before the question, from items that are held out of what is scored.

Examples come from other clusters than the items that are scored: a second visit of a patient would be no question any
more once the first was shown solved. They are the same for every item and every model.
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.errors import UsageError, counted
from steelyard.ground.chance import lot
from steelyard.runner.strategies.contract import Asking, Strategy, number_of_examples, strategies
from steelyard.runner.tasks.contract import Item, Target


def held_out(
    items: Sequence[Item], count: int, seed: int, *, in_turns: int | None = None
) -> tuple[tuple[Item, ...], tuple[Item, ...]]:
    """Examples, one from a cluster each, and the items of all other clusters, which are left to be scored.

    Clusters come at random, and labels take turns, in an order that is random too, as far as there are clusters that
    have them; beyond the first `in_turns`, labels come as often as they are, so that a large pool does not take the
    rare ones away from what is scored. Items that should rather be declined are taken last. With the same seed, fewer
    examples are the first of more.
    """
    if count == 0:
        return (), tuple(items)
    clusters: dict[str | int, list[Item]] = {}
    for item in items:
        clusters.setdefault(cluster_of(item), []).append(item)
    if len(clusters) <= count:
        raise UsageError(
            f"{counted(count, 'example')} must come from other clusters than the items that are scored; "
            f"there {'is 1 cluster' if len(clusters) == 1 else f'are {len(clusters)} clusters'} in all. Show fewer "
            "examples, or ask without"
        )
    waiting = sorted(
        (item for item in items if item.target is not None),
        key=lambda item: (item.should_abstain is True, lot(seed, cluster_of(item)), lot(seed, item.id)),
    )
    examples: list[Item] = []
    used: set[str | int] = set()
    for label in _turns(waiting, count if in_turns is None else min(count, in_turns), seed):
        example = next((each for each in waiting if each.target == label and cluster_of(each) not in used), None)
        if example is not None:
            examples.append(example)
            used.add(cluster_of(example))
        if len(examples) == (count if in_turns is None else min(count, in_turns)):
            break
    for item in waiting:
        if len(examples) < count and cluster_of(item) not in used:
            examples.append(item)
            used.add(cluster_of(item))
    if len(examples) < count:
        raise UsageError(f"{count} examples are asked for; only {counted(len(examples), 'cluster')} with a solved one")
    return tuple(examples), tuple(item for item in items if cluster_of(item) not in used)


def _turns(items: Sequence[Item], count: int, seed: int) -> list[Target]:
    """Whose turn it is: each label once, then again, often enough for one label to give all examples."""
    labels = {item.target for item in items if item.target is not None}
    return sorted(labels, key=lambda label: lot(seed, str(label))) * count


def cluster_of(item: Item) -> str | int:
    """What is resampled together: the cluster, or the item itself where none is stated."""
    return item.id if item.cluster is None else item.cluster


def _make(examples: int | None) -> Strategy:
    count = number_of_examples("few-shot", examples)
    return Asking(name=f"few-shot-{count}", about="solved examples, then the question", examples=count)


strategies.add("few-shot", _make)
