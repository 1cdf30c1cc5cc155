"""What a strategy is: from a task, an item and examples to the messages that are sent, and the form of the reply.

The task says what is asked and which answers there are; the strategy says how, and how to reply. A reply is one JSON
object, for which there is a JSON Schema, or where the model cannot write that, a line `Answer: …` of text:

    answer       one of the labels, or a number; null where the model declines
    abstain      true where it declines; only where the task says that it may
    confidence   from 0 to 1, or where it is asked for in words, a whole number from 1 to 5
    reasoning    before all these, where the model is to think first
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from steelyard.errors import UsageError
from steelyard.records.labels import value_name
from steelyard.registry import Registry
from steelyard.runner.backends.contract import Message
from steelyard.runner.tasks.contract import Item, Label, Task, answers_are, context_of
from steelyard.runner.tasks.prompts import shipped

Format = Literal["json", "text"]
MOST_EXAMPLES = 100


class Strategy(Protocol):
    """A way to ask."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str:
        """One line for people who choose a strategy."""

    @property
    def examples(self) -> int:
        """How many solved examples the messages show; they are held out of what is scored."""

    @property
    def verbalized(self) -> bool:
        """True if confidence is asked for as a whole number from 1 to 5."""

    @property
    def samples(self) -> int:
        """How many replies make one answer."""

    @property
    def similar(self) -> bool:
        """True if the examples are those most like the question."""

    def messages(
        self, task: Task, item: Item, examples: Sequence[Item] = (), *, format: Format = "json"
    ) -> tuple[Message, ...]:
        """What is sent."""

    def schema(self, task: Task, options: Sequence[Label] | None = None) -> Mapping[str, Any]:
        """The JSON Schema of the reply; `options` are the labels in the order in which they are listed."""


Maker = Callable[[int | None], Strategy]
strategies: Registry[Maker] = Registry("strategy")  # from a number of examples, where one is given, to a strategy

_NUMBERED = re.compile(r"(?P<name>.+)-(?P<number>[0-9]{1,6})")


def strategy_named(name: str, examples: int | None = None) -> Strategy:
    """The strategy of this name. A number at its end, or `examples`, is how many examples it shows: few-shot-3."""
    match = _NUMBERED.fullmatch(name)
    if name in strategies or match is None:
        return strategies[name](examples)
    return strategies[match["name"]](int(match["number"]))


@dataclass(frozen=True, kw_only=True)
class Asking:
    """A strategy made of what strategies differ in."""

    name: str
    about: str
    examples: int = 0
    reasoning: bool = False
    verbalized: bool = False
    samples: int = 1
    similar: bool = False
    contextual: bool = False

    def messages(
        self, task: Task, item: Item, examples: Sequence[Item] = (), *, format: Format = "json"
    ) -> tuple[Message, ...]:
        if len(examples) != self.examples:
            raise UsageError(f"the strategy {self.name} shows {self.examples} examples; {len(examples)} were given")
        background = task.background()
        said = shipped(__package__, "message").text(
            {
                "context": self._context(task),
                "examples": [
                    {
                        "question": task.question(each),
                        "reason": each.reason if self.reasoning else None,
                        "target": value_name(each.target),
                    }
                    for each in examples
                ],
                "question": task.question(item),
                "reply": self._reply(task, item.options or task.labels, format),
            }
        )
        user = Message(role="user", content=said)
        return (Message(role="system", content=background), user) if background else (user,)

    def schema(self, task: Task, options: Sequence[Label] | None = None) -> Mapping[str, Any]:
        listed = options or task.labels
        return answer_schema(task, listed, verbalized=self.verbalized, reasoning=self.reasoning)

    def _context(self, task: Task) -> str:
        """What comes first."""
        context = context_of(task) if self.contextual else ""
        if self.contextual and not context:
            raise UsageError(
                f"the strategy {self.name} begins with the context of a task, and {task.name} has none; in a task file "
                "`context` says it"
            )
        return context

    def _reply(self, task: Task, options: Sequence[Label] | None, format: Format) -> str:
        """How to reply, in words."""
        return shipped(__package__, f"reply_{format}").text(
            {
                "choices": None if options is None else [json.dumps(label, ensure_ascii=False) for label in options],
                "labels": None if options is None else [value_name(label) for label in options],
                "range": task.range,
                "texts": answers_are(task) == "text",
                "declining": task.may_decline,
                "reasoning": self.reasoning,
                "verbalized": self.verbalized,
            }
        )


def without_number(strategy: Strategy) -> Maker:
    """A maker of a strategy that is always the same."""

    def make(examples: int | None) -> Strategy:
        if examples is not None:
            shown = "one example" if strategy.examples else "no examples"
            raise UsageError(f"the strategy {strategy.name} shows {shown}; few-shot-{examples} shows {examples}")
        return strategy

    return make


def number_of_examples(strategy: str, examples: int | None) -> int:
    """How many examples a strategy shows, if that can be."""
    if examples is None:
        raise UsageError(f"{strategy} needs to know how many examples: {strategy}-3")
    if not 1 <= examples <= MOST_EXAMPLES:
        raise UsageError(f"{strategy} shows 1 to {MOST_EXAMPLES} examples; zero-shot shows none")
    return examples


def answer_schema(task: Task, options: Sequence[Label] | None, *, verbalized: bool, reasoning: bool) -> dict[str, Any]:
    """The JSON Schema of an answer to a task, with the labels in this order."""
    answer: dict[str, Any] = {"type": "number"}
    if options is not None:
        answer = {"type": "string" if isinstance(options[0], str) else "integer", "enum": list(options)}
    elif answers_are(task) == "text":
        answer = {"type": "string"}
    elif task.range is not None:
        answer |= {"minimum": task.range[0], "maximum": task.range[1]}
    if task.may_decline:
        answer["type"] = [answer["type"], "null"]
        if "enum" in answer:
            answer["enum"] = [*answer["enum"], None]
    properties: dict[str, Any] = {
        **({"reasoning": {"type": "string"}} if reasoning else {}),
        **({"rationale": {"type": "string"}} if answers_are(task) == "text" else {}),
        "answer": answer,
        **({"abstain": {"type": "boolean"}} if task.may_decline else {}),
        "confidence": {"type": "integer", "minimum": 1, "maximum": 5}
        if verbalized
        else {"type": "number", "minimum": 0, "maximum": 1},
    }
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
