"""What is known of a task beyond its rows: labels, the range of its scores, which direction is better.

Comes from `read(..., task=...)`, or a `.task.yaml` next to the data:

    labels: [Low, Medium, High]      # the fixed set; a target outside it is an input error
    positive: High                   # the label that sensitivity, ppv and their kin are about
    range: [0, 3]                    # of numeric targets, or just the width: 3
    direction: higher                # of row scores that another tool computed: mean(score)
    facts: {wall_seconds: 812.5}     # facts of the whole table: values without interval
    abstain: ["I don't know"]        # predictions that mean that the model declined
    unparsed: ["N/A"]                # predictions that mean that its reply could not be read
    lexicon: [ward.tsv]              # tables of clinical terms that metrics of texts know besides their own
    benchmark: {tasks: …}            # what is measured in each task (see `plan`), for scores over all of them

A file that describes how models are asked (`runner.tasks.from_file`) is one too; the keys that are for asking are left
alone here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Any

from steelyard.errors import UsageError, printable
from steelyard.ground.yaml import load_yaml
from steelyard.records.plan import Plan
from steelyard.registry import closest

Label = str | int | bool
_ASKING = (
    *("name", "data", "id", "question", "target", "prompt", "cluster", "groups", "should_abstain", "decline"),
    *("answers", "rationale"),
)
FACTS = ("wall_seconds", "kwh", "co2_kg")


@dataclass(frozen=True)
class Task:
    """Facts of a task; everything is optional.

    >>> Task(labels=("low", "high"), positive="high").labels
    ('low', 'high')
    """

    labels: tuple[Label, ...] | None = None
    range: float | None = None
    direction: str | None = None
    facts: Mapping[str, float] = field(default_factory=dict)
    abstain: tuple[str, ...] = ()  # predictions that mean that the model declined
    unparsed: tuple[str, ...] = ()  # predictions that mean that its reply could not be read
    lexicon: tuple[str, ...] = ()  # tables of clinical terms, for metrics of texts
    positive: Label | None = None  # the label that rates of one class against the rest are about
    benchmark: Plan | None = None  # what is measured in each task of a benchmark, and how its categories are weighed

    @classmethod
    def load(cls, path: Path | str) -> Task:
        """Read a task file; what it names lies next to it."""
        task = cls.of(load_yaml(Path(path)), source=str(path))
        beside = (str(Path(path).parent / table) if Path(table).suffix else table for table in task.lexicon)
        return replace(task, lexicon=tuple(beside)) if task.lexicon else task

    @classmethod
    def of(cls, document: object, *, source: str = "task") -> Task:
        """A Task from a mapping, checked; unknown keys are errors with a hint."""
        if isinstance(document, Task):
            return document
        if document is None:
            return cls()
        if not isinstance(document, Mapping):
            raise UsageError(f"{printable(source)}: a mapping with labels, range or direction is expected")
        known = ["labels", "positive", "range", "direction", "facts", "abstain", "unparsed", "lexicon", "benchmark"]
        for key in document:
            if key not in known and key not in _ASKING:
                near = closest(str(key), known)
                hint = f"did you mean '{near}'?" if near else f"known: {', '.join(known)}"
                raise UsageError(f"{printable(source)}: unknown key '{printable(key)}'; {hint}")
        labels = _labels(document.get("labels"), source)
        return cls(
            labels=labels,
            range=_range(document.get("range"), source),
            direction=_direction(document.get("direction"), source),
            facts=_facts(document.get("facts"), source),
            abstain=_texts(document.get("abstain"), "abstain", source),
            unparsed=_texts(document.get("unparsed"), "unparsed", source),
            lexicon=_texts(document.get("lexicon"), "lexicon", source),
            positive=_positive(document.get("positive"), labels, source),
            benchmark=Plan.of(document.get("benchmark"), source=source),
        )


def _labels(value: Any, source: str) -> tuple[Label, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple) or len(value) < 2 or len({type(v) for v in value}) != 1:
        raise UsageError(f"{printable(source)}: labels is a list of at least two labels of one type")
    if not isinstance(value[0], str | int | bool):
        raise UsageError(f"{printable(source)}: labels are texts or whole numbers")
    if len(set(value)) != len(value):
        raise UsageError(f"{printable(source)}: a label appears twice in labels")
    return tuple(value)


def _positive(value: Any, labels: tuple[Label, ...] | None, source: str) -> Label | None:
    if value is not None and not isinstance(value, str | int | bool):
        raise UsageError(f"{printable(source)}: positive is one label")
    if value is not None and labels is not None and value not in labels:
        raise UsageError(f"{printable(source)}: positive is not among the labels")
    return value


def _texts(value: Any, key: str, source: str) -> tuple[str, ...]:
    texts = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) and text.strip() for text in texts):
        raise UsageError(f"{printable(source)}: {key} is a text or a list of texts")
    return tuple(texts)


def _range(value: Any, source: str) -> float | None:
    if value is None:
        return None
    ends = value if isinstance(value, list | tuple) else [0, value]
    ok = len(ends) == 2 and all(isinstance(v, int | float) and not isinstance(v, bool) and isfinite(v) for v in ends)
    if not ok or not ends[1] > ends[0]:
        raise UsageError(f"{printable(source)}: range is [low, high] or a positive width")
    return float(ends[1] - ends[0])


def _direction(value: Any, source: str) -> str | None:
    if value not in (None, "higher", "lower"):
        raise UsageError(f"{printable(source)}: direction is higher or lower")
    return None if value is None else str(value)


def _facts(value: Any, source: str) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UsageError(f"{printable(source)}: facts is a mapping of names to numbers")
    for name, number in value.items():
        if name not in FACTS:
            raise UsageError(f"{printable(source)}: unknown fact '{printable(name)}'; known: {', '.join(FACTS)}")
        if isinstance(number, bool) or not isinstance(number, int | float) or not isfinite(number) or number < 0:
            raise UsageError(f"{printable(source)}: the fact '{name}' is a finite number, at least 0")
    return {str(name): float(number) for name, number in value.items()}
