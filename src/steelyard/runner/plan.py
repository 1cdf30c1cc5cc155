"""What a run-spec comes to: which model is asked what, how often, in which order; nothing is sent.

    plan = planned(load_spec("spec.yaml"))
    plan.count                 requests in all: models × strategies × perturbations × items × repeats × samples
    plan.request(7)            the eighth of them

The order never differs, so a request's number is its key: a journal says by numbers what was answered. Every model is
asked about the same items, in the same words. A perturbation asks about the items whose question it changes; the others
are counted. The digest covers all that the rows depend on besides the spec: the items with their targets, the messages
as they are sent, and the files that the models' options name. A run is taken up again only where both are the same.

With `inference.seed` stated, sample s of k in repeat r is asked with seed + (r − 1)·k + s − 1: with one sample,
seed + r − 1. Without it no seed is sent.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from typing import Any, cast

from steelyard.errors import UsageError
from steelyard.ground.digests import file_digest
from steelyard.records.patterns import told_patterns
from steelyard.records.sources import Source
from steelyard.runner.backends import Inference, Message, Request
from steelyard.runner.choosing import chosen_items
from steelyard.runner.examples import EMBEDDER, OFFLINE, HeldOut
from steelyard.runner.perturbations import altered_item, perturbations, perturbed
from steelyard.runner.spec import Model, RunSpec, SpecFile
from steelyard.runner.strategies import Strategy, strategy_named
from steelyard.runner.strategies.contract import Format
from steelyard.runner.tally import cost_of
from steelyard.runner.tasks import Item, Task, task_named
from steelyard.runner.tasks.contract import Label
from steelyard.runner.tasks.from_file import spelt
from steelyard.texts.embedders import embedder

LOGPROBS_UNUSED = (
    "log-probabilities are asked for, and confidence is what models report of themselves; `confidence: logprobs` in "
    "the spec takes how likely their label was"
)
_CHARACTERS = 4  # of a token, about


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a request stands in the plan."""

    number: int
    model: Model
    strategy: Strategy
    item: Item  # as it is asked about
    repeat: int
    perturbation: str | None = None
    sample: int = 1


@dataclass(frozen=True)
class _Block:
    """Requests to a model that differ in item, repeat and sample alone; `items` are places of items."""

    strategy: Strategy
    perturbation: str | None
    items: Sequence[int]


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything that is asked, before anything is."""

    file: SpecFile
    task: Task
    strategies: tuple[Strategy, ...]
    items: tuple[Item, ...]
    held_out: HeldOut
    changed: Mapping[str, Sequence[int]] = field(default_factory=dict)  # by perturbation, places of items it changes
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
        return self._starts[-1]

    @property
    def unchanged(self) -> dict[str, int]:
        """By perturbation, how many items it leaves as they are, so that they are not asked about again."""
        return {name: len(self.items) - len(places) for name, places in self.changed.items()}

    @property
    def format(self) -> Format:
        """How models are told to reply."""
        return "text" if self.spec.inference.format == "text" else "json"

    def numbers(self, model: Model) -> range:
        """The numbers of a model's requests."""
        first = self.spec.models.index(model) * self.per_model
        return range(first, first + self.per_model)

    def place(self, number: int) -> Place:
        """The model, strategy, perturbation, item, repeat and sample of a request."""
        model, within = divmod(number, self.per_model)
        at = bisect_right(self._starts, within) - 1
        block = self._blocks[at]
        rest, sample = divmod(within - self._starts[at], block.strategy.samples)
        item, repeat = divmod(rest, self.spec.repeat)
        return Place(
            number=number,
            model=self.spec.models[model],
            strategy=block.strategy,
            item=self.item(block.items[item], block.perturbation),
            repeat=repeat + 1,
            perturbation=block.perturbation,
            sample=sample + 1,
        )

    def item(self, place: int, perturbation: str | None) -> Item:
        """An item as it is asked about."""
        item = self.items[place]
        return item if perturbation is None else altered_item(perturbation, self.task, item, self.spec.seed)

    def asked(self, most: int | None = None) -> Iterator[tuple[Strategy, str | None, Item]]:
        """Everything that a model is asked about, each once: repeats and samples are asked in the same words.

        With `most`, so many items of every strategy under every perturbation.
        """
        for block in self._blocks:
            for place in block.items[:most]:
                yield block.strategy, block.perturbation, self.item(place, block.perturbation)

    def messages(self, strategy: Strategy, item: Item) -> tuple[Message, ...]:
        """What is said to every model about an item."""
        return strategy.messages(self.task, item, self.held_out.for_question(strategy, item), format=self.format)

    def request(self, place: Place) -> Request:
        """The request as a backend gets it."""
        return Request(
            model=place.model.name,
            messages=self.messages(place.strategy, place.item),
            inference=self._inference(place),
            schema=self._schema(place.strategy, place.item),
            item=self.task.shown(place.item),
            repeat=place.repeat,
            sample=place.sample,
            item_id=place.item.id,
            strategy=place.strategy.name,
            perturbation=place.perturbation,
        )

    def has_asked(self, row: Mapping[str, Any]) -> bool:
        """Whether a row of a journal answers the request of its number."""
        number = row["key"]
        if type(number) is not int or not 0 <= number < self.count:
            return False
        place = self.place(number)
        asked = (place.model.name, place.strategy.name, place.perturbation, place.item.id, place.repeat, place.sample)
        names = ("model", "strategy", "perturbation", "item", "repeat")
        return asked == (*(row.get(name) for name in names), row.get("sample", 1))

    @cached_property
    def digest(self) -> str:
        """A digest of all that the rows depend on besides the spec; every message is rendered for it once."""
        return _digest(self._stated())

    @cached_property
    def items_digest(self) -> str:
        """A digest of what is asked about, with the right answers, however it is asked."""
        return _digest(self._stated_items())

    def _stated_items(self) -> Iterator[Any]:
        every = (vars(item) for item in self.items)
        known = ({name: value for name, value in each.items() if name != "columns"} for each in every)
        shown = (self.task.shown(item) for item in self.items)
        return ({**each, "fields": fields} for each, fields in zip(known, shown, strict=True))

    def _stated(self) -> Iterator[Any]:
        yield [self._schemas, [item.id for item in self.held_out.items]]
        yield from self._stated_items()
        for strategy, perturbation, item in self.asked():
            yield [strategy.name, perturbation, item.id, item.options]
            yield [asdict(message) for message in self.messages(strategy, item)]
        yield {name: file_digest(path) for name, path in self.file.files_of_models().items()}
        words = getattr(self.task, "abstain", ()), getattr(self.task, "file", None) and self.task.spellings
        if any(words):  # how replies are read, where a task says so
            yield [list(words[0]), words[1]]

    @cached_property
    def _blocks(self) -> tuple[_Block, ...]:
        every = range(len(self.items))
        altered = [(name, places) for name, places in self.changed.items() if places]
        return tuple(
            _Block(strategy, perturbation, places)
            for strategy in self.strategies
            for perturbation, places in ((None, every), *altered)
        )

    @cached_property
    def _starts(self) -> list[int]:
        """The number of the first request of every block, and how many there are in all."""
        sizes = (len(block.items) * self.spec.repeat * block.strategy.samples for block in self._blocks)
        return list(accumulate(sizes, initial=0))

    def _schema(self, strategy: Strategy, item: Item) -> Mapping[str, Any] | None:
        """The form of the reply, with the labels in the order in which they are listed."""
        if item.options is None or self.format != "json":
            return self._schemas[strategy.name]
        return strategy.schema(self.task, item.options)

    @cached_property
    def _schemas(self) -> dict[str, Mapping[str, Any] | None]:
        wanted = self.format == "json"
        return {each.name: each.schema(self.task) if wanted else None for each in self.strategies}

    def _inference(self, place: Place) -> Inference:
        """The settings of a request, with a seed of its own."""
        stated = self._stated_inference
        if stated.seed is None:
            return stated
        return replace(stated, seed=stated.seed + (place.repeat - 1) * place.strategy.samples + place.sample - 1)

    @cached_property
    def _stated_inference(self) -> Inference:
        asked = self.spec.inference
        return Inference(
            temperature=asked.temperature,
            seed=asked.seed,
            max_tokens=asked.max_tokens,
            logprobs=asked.logprobs,
            top_logprobs=asked.top_logprobs,
            top_p=asked.top_p,
            min_p=asked.min_p,
            top_k=asked.top_k,
            format=asked.format,
        )


def _digest(parts: Iterable[Any]) -> str:
    told = hashlib.sha256()
    for part in parts:
        told.update(json.dumps(part, sort_keys=True, default=str).encode())
        told.update(b"\n")
    return told.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Expense:
    """What asking one model would take: a token has about four characters, and no reply is longer than it may be."""

    requests: int
    read: int
    written: int | None  # at most; None where replies may be of any length
    cost: float | None  # at most; None where prices or lengths are not known


def expenses(plan: Plan) -> dict[str, Expense]:
    """What asking each model would take, by its name."""
    once = sum(
        len(message.content) * strategy.samples
        for strategy, _, item in plan.asked()
        for message in plan.messages(strategy, item)
    )
    read, most = once * plan.spec.repeat // _CHARACTERS, plan.spec.inference.max_tokens
    written = None if most is None else most * plan.per_model

    def cost(model: Model) -> float | None:
        known = {"input_tokens": read, "output_tokens": written}
        return cost_of(model.price, known)

    return {
        m.name: Expense(requests=plan.per_model, read=read, written=written, cost=cost(m)) for m in plan.spec.models
    }


def estimated_tokens(plan: Plan) -> int:
    """About how many tokens the models would read in all."""
    return sum(expense.read for expense in expenses(plan).values())


@dataclass(frozen=True)
class WordedTask:
    """A task with what a spec adds: how models may call its labels, and which replies decline."""

    task: Task
    spellings: Mapping[str, Label]
    abstain: tuple[str, ...]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.task, name)


def _worded(file: SpecFile, task: Task) -> Task:
    """The task with the spellings and the replies that decline of a spec."""
    spec = file.spec
    if not (spec.spellings or spec.abstain):
        return task
    try:
        spellings = {**task.spellings, **spelt(spec.spellings, task.labels)}
    except UsageError as problem:
        raise file.problem(("spellings",), str(problem)) from None
    try:
        told_patterns(spec.abstain)
    except UsageError as problem:
        raise file.problem(("abstain",), str(problem)) from None
    worded: Any = WordedTask(task, spellings, (*getattr(task, "abstain", ()), *spec.abstain))
    return cast(Task, worded)


def planned(file: SpecFile) -> Plan:
    """The plan of a spec, after everything that can be known before the first question was checked."""
    spec = file.spec
    try:
        task = task_named(spec.task, file.folder)
    except UsageError as problem:
        raise file.problem(("task",), str(problem)) from None
    task = _worded(file, task)
    strategies = _strategies(file)
    examples, chosen = chosen_items(file, task, strategies)
    if spec.confidence == "consistency" and not any(strategy.samples > 1 for strategy in strategies):
        raise file.problem(
            ("confidence",), "consistency needs a strategy that takes samples, such as self-consistency-5"
        )
    if spec.confidence == "verbalized" and not any(strategy.verbalized for strategy in strategies):
        raise file.problem(("confidence",), "verbalized needs the strategy verbalized")
    unused = spec.inference.logprobs and spec.confidence == "reported"
    return Plan(
        file=file,
        task=task,
        strategies=strategies,
        items=chosen.items,
        changed=_changed(file, task, chosen.items),
        held_out=HeldOut(task, examples, spec.adaptation.embedder or EMBEDDER),
        left_out=chosen.left_out,
        warnings=(*chosen.warnings, *([LOGPROBS_UNUSED] if unused else [])),
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
                if not found[-1].examples:
                    raise UsageError(f"how often it samples is a part of its name: {name}-5")
                used = True
            except UsageError as other:
                raise file.problem(("adaptation", "strategy", number), str(other)) from None
    if adaptation.examples is not None and not used:
        raise file.problem(("adaptation", "examples"), "no strategy takes examples, or all say how many")
    if len({each.name for each in found}) != len(found):
        raise file.problem(("adaptation", "strategy"), "two of these strategies are the same")
    _check_strategies(file, found)
    return tuple(found)


def _check_strategies(file: SpecFile, strategies: Sequence[Strategy]) -> None:
    """Refuse samples that cannot differ, and an embedder that compares nothing or would have to be asked."""
    sampling = next((each.name for each in strategies if each.samples > 1), None)
    if sampling is not None and file.spec.inference.temperature == 0:
        said = f"{sampling} takes samples that may differ; say so: inference: {{temperature: 0.7}}"
        raise file.problem(("adaptation", "strategy"), said)
    name = file.spec.adaptation.embedder
    if name is None:
        return
    if not any(each.similar for each in strategies):
        raise file.problem(("adaptation", "embedder"), "no strategy compares questions; few-shot-similar-3 does")
    if name.partition(":")[0] not in OFFLINE:
        said = f"questions are compared before anything is asked, so offline: {' or '.join(OFFLINE)}"
        raise file.problem(("adaptation", "embedder"), said)
    try:
        embedder(name)
    except UsageError as problem:
        raise file.problem(("adaptation", "embedder"), str(problem)) from None


def _changed(file: SpecFile, task: Task, items: Sequence[Item]) -> Mapping[str, Sequence[int]]:
    """By perturbation, the places of the items whose question it changes."""
    spec, changed = file.spec, {}
    for number, name in enumerate(spec.perturbations):
        if name not in perturbations:
            raise file.problem(("perturbations", number), perturbations.unknown(name))
        places = array("q", (at for at, item in enumerate(items) if perturbed(name, task, item, spec.seed) is not None))
        if not places:
            raise file.problem(("perturbations", number), f"{name} changes no question of {task.name}; leave it out")
        changed[name] = places
    return changed
