"""Which items are asked about, and which are shown solved: as a spec says, the same for every model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from steelyard.errors import printable
from steelyard.registry import closest
from steelyard.runner.examples import POOL
from steelyard.runner.spec import SpecFile
from steelyard.runner.strategies import Strategy
from steelyard.runner.strategies.few_shot import cluster_of, held_out
from steelyard.runner.tasks import DataSpec, Item, Items, Task, sampled

SAME_AS_AN_EXAMPLE = "the same question as a solved example"


def chosen_items(file: SpecFile, task: Task, strategies: Sequence[Strategy]) -> tuple[tuple[Item, ...], Items]:
    """The examples, and the items that are asked about: as many as wanted, where examples are held out of more."""
    spec = file.spec
    data = (
        None
        if spec.data is None
        else DataSpec(path=str(file.path(spec.data.path)), map=spec.data.map, where=spec.data.where)
    )
    size, seed = spec.sample_size, spec.seed
    count = max(strategy.examples for strategy in strategies)
    pool = POOL if any(strategy.similar for strategy in strategies) else count
    found = task.items(data, size=size, seed=seed)
    items, more = _clustered(file, found.items), max(count, pool)
    examples: tuple[Item, ...] = ()
    while count:
        if size is not None and len(found.items) == size:
            items = _clustered(file, task.items(data, size=size + more, seed=seed).items)
        examples, rest = held_out(items, max(count, min(pool, _spare(items, size))), seed, in_turns=count)
        is_all = size is None or len(items) < size + more
        if size is None or len(rest) >= size or is_all:
            items = sampled(rest, size, seed)
            break
        more *= 2
    return examples, _scored(task, found, examples, items)


def _scored(task: Task, found: Items, examples: Sequence[Item], items: Sequence[Item]) -> Items:
    """The items without those that an example asks in the same words, which would be shown solved."""
    solved = {task.question(example) for example in examples}
    kept = tuple(item for item in items if task.question(item) not in solved) if solved else tuple(items)
    same = len(items) - len(kept)
    fewer: tuple[str, ...] = ()
    if len(kept) < len(found.items):
        asked = "1 item is" if len(kept) == 1 else f"{len(kept):,} items are"
        fewer = (f"{asked} asked about, because examples were held out of {len(found.items):,}",)
    left_out = {**found.left_out, **({SAME_AS_AN_EXAMPLE: same} if same else {})}
    return replace(found, items=kept, left_out=left_out, warnings=(*found.warnings, *fewer))


def _spare(items: Sequence[Item], size: int | None) -> int:
    """How many clusters can be held out: those that are not wanted, or a fifth of all."""
    clusters = len({cluster_of(item) for item in items})
    return max(clusters // 5, 0 if size is None else clusters - size)


def _clustered(file: SpecFile, items: Sequence[Item]) -> tuple[Item, ...]:
    """The items, with what the spec calls their cluster."""
    name = file.spec.cluster
    if name in (None, "cluster"):
        return tuple(items)
    if name == "item":
        return tuple(replace(item, cluster=item.id) for item in items)
    assert name is not None
    return tuple(replace(item, cluster=_cluster(file, item, name)) for item in items)


def _cluster(file: SpecFile, item: Item, name: str) -> str | int:
    known = {
        **item.columns,
        **item.fields,
        **item.more,
        **{f"group.{group}": value for group, value in item.groups.items()},
    }
    if name not in known:
        near = closest(name, list(known))
        hint = f"did you mean '{printable(near)}'?" if near else f"there are: {', '.join(map(printable, known))}"
        raise file.problem(("cluster",), f"the items have no '{printable(name)}'; {hint}")
    value = known[name]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise file.problem(("cluster",), f"'{printable(name)}' is no name: a text or a whole number per item is needed")
    return value
