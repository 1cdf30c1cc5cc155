"""What the readers of other tools' logs share: rows put together a batch at a time, and the outcome of a reply.

    samples = Samples(source)
    outcome = samples.outcome(answer="", completion="I don't know", target="A")     # "abstained", counted with its rule
    samples.add({"item": "q1", "repeat": 1, "target": "A", "prediction": None, "outcome": outcome, ...})
    return samples.table(about={"model": ...}, declared=(...), excerpt="10 of 12 samples that were to be run")

A row is a nested dictionary, as a line of JSON Lines would be: `metadata.*` and `signal.*` become columns where they
are wanted, by the same rules. The line of a row in errors is its number in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from steelyard.errors import UsageError, printable
from steelyard.records.declared import Declared
from steelyard.records.declining import LONGEST, PHRASE
from steelyard.records.readers.contract import Table
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.jsonl import Lines
from steelyard.records.schema import kind_of, text_array
from steelyard.registry import closest

_ROWS = 1_000  # that are put together
_MOST_TARGETS = 10_000  # that are known by name
_PHRASE = f"{PHRASE}; `abstain_when=` changes that"
_TEXTS = ("text", "null")
_LARGEST = 2**63 - 1


class Samples:
    """The rows of a log, and how many of them each rule made what they are."""

    def __init__(self, source: Input, *, what: str = "samples") -> None:
        self._source, self._what = source, what
        self._lines = Lines(source)
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self._rows = 0
        self._rules: Counter[tuple[str, str]] = Counter()
        self._targets: set[str] = set()
        self._phrase: str | None = None  # of the row that is added next
        self._phrases: dict[int, str] = {}  # by row: what was taken for declining

    def __len__(self) -> int:
        return self._rows

    def outcome(
        self,
        *,
        answer: str | None,
        completion: str | None,
        target: Any = None,
        no_answer: bool = False,
        right: bool = False,
    ) -> str:
        """What became of a question that got a reply, or should have: by the rules that hold, which are counted.

        `no_answer` says that the tool itself marked the reply so, `right` that it found it right. Without any text
        there is no reply; an empty answer in a reply could not be read.
        """
        if isinstance(target, str) and len(self._targets) < _MOST_TARGETS:
            self._targets.add(_folded(target))
        outcome, rule = self._judged(answer, completion, target, no_answer=no_answer, right=right)
        text = _text(answer, completion)
        self._phrase = text if rule == _PHRASE and len(text) <= LONGEST else None  # a longer one is no label
        return self.counted(outcome, rule)

    def counted(self, outcome: str, rule: str) -> str:
        """An outcome, with the rule behind it in words; what was answered needs none."""
        if outcome != "answered":
            self._rules[outcome, rule] += 1
        return outcome

    def _judged(
        self, answer: str | None, completion: str | None, target: Any, *, no_answer: bool, right: bool
    ) -> tuple[str, str]:
        blank, text = not (answer or "").strip(), _text(answer, completion)
        if not text.strip() and not no_answer:
            return "failed", "there is no reply"
        if (meant := self._source.labels.outcome_of(text)) is not None:
            return meant, "the text is one of `abstain=`" if meant == "abstained" else "the text is one of `unparsed=`"
        if right and not no_answer:
            return "answered", ""
        rules = self._source.abstain_when
        is_target = isinstance(target, str) and _folded(text) == _folded(target)
        if not is_target and (why := rules.why(text, no_answer=no_answer, extracted=not blank)) is not None:
            return "abstained", f"{why}; `abstain_when=` changes that"
        if not blank:
            return "answered", ""
        if "empty" in rules.rules:
            return "abstained", "no answer was found in the reply"
        return "unparsed", "no answer was found in the reply; `abstain_when=empty` takes that for declining"

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row; numbers that are not finite become null, whole ones beyond 64 bits text.

        What the user maps another column to (`map={"item": "doc_hash"}`) is left for that.
        """
        self._rows += 1
        if self._phrase is not None:
            self._phrases[self._rows - 1], self._phrase = self._phrase, None
        try:
            kept = {name: _storable(value) for name, value in row.items() if name not in self._source.mapped}
        except RecursionError:
            raise self._source.error("the objects or lists are nested too deeply", line=self._rows) from None
        self._waiting.append((self._rows, kept))
        if len(self._waiting) == _ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._lines.objects(self._waiting)
            self._waiting = []

    def table(
        self,
        *,
        about: Mapping[str, str] | None = None,
        declared: Sequence[Declared] = (),
        excerpt: str = "",
        remarks: Sequence[str] = (),
    ) -> Table:
        """All rows as one table."""
        with self._lines.all_problems():
            self._flush()
            if not self._rows:
                raise self._source.error(f"there are no records: the log holds no {self._what}")
            table = self._with_labels(self._lines.table())
        said = [
            f"{printable(self._source.name)}: {count:,} of {self._rows:,} {self._what} "
            f"{'counts' if count == 1 else 'count'} as {outcome}: {rule}"
            for (outcome, rule), count in self._rules.items()
            if count
        ]
        if excerpt:
            unless = "nothing can pass a gate on it without `allow=excerpt`"
            said.append(f"{printable(self._source.name)}: an excerpt, {excerpt}; {unless}")
        return replace(
            table,
            about=dict(about or {}),
            declared=tuple(declared),
            excerpt=excerpt,
            warnings=(*table.warnings, *said, *remarks),
        )

    def _with_labels(self, table: Table) -> Table:
        """The table in which a phrase that is a target of another row is an answer: in this log it is a label."""
        meant = {row: text for row, text in self._phrases.items() if _folded(text) in self._targets}
        columns = dict(table.columns)
        if not meant or not {"outcome", "prediction"} <= set(columns) or kind_of(columns["prediction"]) not in _TEXTS:
            return table
        mask = np.zeros(table.rows, bool)
        mask[list(meant)] = True
        answers = text_array([meant[row] for row in sorted(meant)])
        columns["prediction"] = pc.replace_with_mask(columns["prediction"].cast(pa.string()), pa.array(mask), answers)
        columns["outcome"] = pc.if_else(pa.array(mask), pa.scalar("answered"), columns["outcome"])
        self._rules["abstained", _PHRASE] -= len(meant)
        return replace(table, columns=columns)


def _text(answer: str | None, completion: str | None) -> str:
    """What was said: the answer, or the reply where no answer was found in it."""
    return (answer if (answer or "").strip() else completion) or ""


def _folded(text: str) -> str:
    return text.strip().casefold()


def chosen(source: Input, names: Sequence[str], *, what: str = "scorer") -> tuple[str, ...]:
    """Those of a log's scorers that were asked for; all where none was."""
    for asked in source.scorers:
        if asked not in names:
            near = closest(asked, list(names))
            hint = f"did you mean '{printable(near)}'?" if near else f"there are: {', '.join(map(printable, names))}"
            raise UsageError(f"{printable(source.name)} has no {what} '{printable(asked)}'; {hint}")
    return tuple(name for name in names if name in source.scorers) if source.scorers else tuple(names)


def _storable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _storable(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_storable(part) for part in value]
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _LARGEST:
        return str(value)
    return value
