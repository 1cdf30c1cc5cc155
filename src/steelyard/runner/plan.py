"""What a run-spec comes to: which model is asked what, how often, in which order; nothing is sent.

    plan = planned(load_spec("spec.yaml"))
    plan.count                 requests in all: models × strategies × items × repeats
    plan.request(7)            the eighth of them

The order never differs, so a request's number is its key: a journal says by numbers what was answered. Every model is
asked about the same items, in the same words. The digest covers all that the rows depend on besides the spec: the items
with their targets, the messages as they are sent, and the files that the models' options name. A run is taken up again
only where both are the same.

With `inference.seed` stated, repeat r is asked with seed + r − 1; without it no seed is sent.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from steelyard.errors import UsageError, printable
from steelyard.ground.digests import file_digest
from steelyard.records.sources import Source
from steelyard.registry import closest
from steelyard.runner.backends import Inference, Message, Request
from steelyard.runner.spec import Model, RunSpec, SpecFile
from steelyard.runner.strategies import Strategy, strategy_named
from steelyard.runner.strategies.contract import Format
from steelyard.runner.strategies.few_shot import held_out
from steelyard.runner.tasks import DataSpec, Item, Items, Task, sampled, task_named

_CHARACTERS = 4  # of a token, about


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a request stands in the plan."""

    number: int
    model: Model
    strategy: Strategy
    item: Item
    repeat: int


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is asked, before anything is."""

    file: SpecFile
    task: Task
    strategies: tuple[Strategy, ...]
    items: tuple[Item, ...]
    examples: tuple[Item, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def spec(self) -> RunSpec:
        return self.file.spec

    @property
    def count(self) -> int:
        """How many requests there are."""
        return len(self.spec.models) * self.per_model

    @property
    def per_model(self) -> int:
        return len(self.strategies) * len(self.items) * self.spec.repeat

    @property
    def format(self) -> Format:
        """How models are told to reply."""
        return "text" if self.spec.inference.format == "text" else "json"

    def numbers(self, model: Model) -> range:
        """The numbers of a model's requests."""
        first = self.spec.models.index(model) * self.per_model
        return range(first, first + self.per_model)

    def place(self, number: int) -> Place:
        """The model, strategy, item and repeat of a request."""
        rest, repeat = divmod(number, self.spec.repeat)
        rest, item = divmod(rest, len(self.items))
        model, strategy = divmod(rest, len(self.strategies))
        return Place(
            number=number,
            model=self.spec.models[model],
            strategy=self.strategies[strategy],
            item=self.items[item],
            repeat=repeat + 1,
        )

    def messages(self, strategy: Strategy, item: Item) -> tuple[Message, ...]:
        """What is said to every model about an item."""
        return strategy.messages(self.task, item, self.examples[: strategy.examples], format=self.format)

    def request(self, place: Place) -> Request:
        """The request as a backend gets it."""
        return Request(
            model=place.model.name,
            messages=self.messages(place.strategy, place.item),
            inference=self._inferences[place.repeat - 1],
            schema=self._schemas[place.strategy.name],
            item=self.task.shown(place.item),
            repeat=place.repeat,
            item_id=place.item.id,
            strategy=place.strategy.name,
        )

    @cached_property
    def digest(self) -> str:
        """A digest of all that the rows depend on besides the spec; every message is rendered for it once."""
        told = hashlib.sha256()
        for part in self._stated():
            told.update(json.dumps(part, sort_keys=True, default=str).encode())
            told.update(b"\n")
        return told.hexdigest()

    def _stated(self) -> Iterator[Any]:
        yield [self._schemas, [item.id for item in self.examples]]
        for item in self.items:
            yield {**vars(item), "fields": self.task.shown(item)}
            yield [[asdict(m) for m in self.messages(strategy, item)] for strategy in self.strategies]
        yield {name: file_digest(path) for name, path in _files(self.file).items()}

    @cached_property
    def _schemas(self) -> dict[str, Mapping[str, Any] | None]:
        wanted = self.format == "json"
        return {each.name: each.schema(self.task) if wanted else None for each in self.strategies}

    @cached_property
    def _inferences(self) -> tuple[Inference, ...]:
        """The settings of every repeat."""
        asked = self.spec.inference
        stated = Inference(
            temperature=asked.temperature,
            max_tokens=asked.max_tokens,
            logprobs=asked.logprobs,
            top_logprobs=asked.top_logprobs,
            top_p=asked.top_p,
            min_p=asked.min_p,
            top_k=asked.top_k,
            format=asked.format,
        )
        seeds = [None if asked.seed is None else asked.seed + repeat for repeat in range(self.spec.repeat)]
        return tuple(replace(stated, seed=seed) for seed in seeds)


def estimated_tokens(plan: Plan) -> int:
    """About how many tokens the models would read in all: a token has about four characters."""
    once = sum(
        len(message.content)
        for item in plan.items
        for strategy in plan.strategies
        for message in plan.messages(strategy, item)
    )
    return once * len(plan.spec.models) * plan.spec.repeat // _CHARACTERS


def planned(file: SpecFile) -> Plan:
    """The plan of a spec, after everything that can be known before the first question was checked."""
    spec = file.spec
    try:
        task = task_named(spec.task, file.folder)
    except UsageError as problem:
        raise file.problem(("task",), str(problem)) from None
    strategies = _strategies(file)
    examples, chosen = _chosen(file, task, max(strategy.examples for strategy in strategies))
    if spec.confidence == "verbalized" and not any(strategy.verbalized for strategy in strategies):
        raise file.problem(("confidence",), "verbalized needs the strategy verbalized")
    return Plan(
        file=file,
        task=task,
        strategies=strategies,
        items=chosen.items,
        examples=examples,
        left_out=chosen.left_out,
        warnings=chosen.warnings,
        sources=chosen.sources,
    )


def _strategies(file: SpecFile) -> tuple[Strategy, ...]:
    """The strategies that are named; `examples` is for those that show some and do not say how many."""
    adaptation = file.spec.adaptation
    found, used = [], False
    for number, name in enumerate(adaptation.strategy):
        try:
            found.append(strategy_named(name))
        except UsageError as problem:
            if adaptation.examples is None:
                raise file.problem(("adaptation", "strategy", number), str(problem)) from None
            try:
                found.append(strategy_named(name, adaptation.examples))
                used = True
            except UsageError as other:
                raise file.problem(("adaptation", "strategy", number), str(other)) from None
    if adaptation.examples is not None and not used:
        raise file.problem(("adaptation", "examples"), "no strategy takes examples, or all say how many")
    if len({each.name for each in found}) != len(found):
        raise file.problem(("adaptation", "strategy"), "two of these strategies are the same")
    return tuple(found)


def _chosen(file: SpecFile, task: Task, count: int) -> tuple[tuple[Item, ...], Items]:
    """The examples, and the items that are asked about: as many as wanted, where examples are held out of more."""
    spec = file.spec
    data = (
        None
        if spec.data is None
        else DataSpec(path=str(file.path(spec.data.path)), map=spec.data.map, where=spec.data.where)
    )
    size, seed = spec.sample_size, spec.seed
    found = task.items(data, size=size, seed=seed)
    items, more = _clustered(file, found.items), count
    examples: tuple[Item, ...] = ()
    while count:
        if size is not None and len(found.items) == size:
            items = _clustered(file, task.items(data, size=size + more, seed=seed).items)
        examples, rest = held_out(items, count, seed)
        is_all = size is None or len(items) < size + more
        if size is None or len(rest) >= size or is_all:
            items = sampled(rest, size, seed)
            break
        more *= 2
    return examples, replace(found, items=tuple(items))


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
    known = {**item.fields, **item.more, **{f"group.{group}": value for group, value in item.groups.items()}}
    if name not in known:
        near = closest(name, list(known))
        hint = f"did you mean '{printable(near)}'?" if near else f"there are: {', '.join(map(printable, known))}"
        raise file.problem(("cluster",), f"the items have no '{printable(name)}'; {hint}")
    value = known[name]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise file.problem(("cluster",), f"'{printable(name)}' is no name: a text or a whole number per item is needed")
    return value


def _files(file: SpecFile) -> dict[str, Path]:
    """The files that the options of models name: recorded answers, functions."""
    texts = [value for model in file.spec.models for value in model.options.values() if isinstance(value, str)]
    named = sorted({part for text in texts for part in (text, text.partition(":")[0]) if part})
    return {name: file.path(name) for name in named if _is_file(file.path(name))}


def _is_file(path: Path) -> bool:
    """False, too, of a text that is too long to be a path, or holds what none can."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
