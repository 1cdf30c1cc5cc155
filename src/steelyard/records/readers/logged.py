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

from steelyard.errors import UsageError, printable
from steelyard.records.declared import Declared
from steelyard.records.readers.contract import Table
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.jsonl import Lines
from steelyard.registry import closest

_ROWS = 1_000  # that are put together
_LARGEST = 2**63 - 1


class Samples:
    """The rows of a log, and how many of them each rule made what they are."""

    def __init__(self, source: Input, *, what: str = "samples") -> None:
        self._source, self._what = source, what
        self._lines = Lines(source)
        self._waiting: list[tuple[int, dict[str, Any]]] = []
        self._rows = 0
        self._rules: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return self._rows

    def outcome(
        self, *, answer: str | None, completion: str | None, target: Any = None, no_answer: bool = False
    ) -> str:
        """What became of a question that got a reply, or should have: by the rules that hold, which are counted.

        `no_answer` says that the tool itself marked the reply so. An empty answer in a reply could not be read.
        """
        outcome, rule = self._judged(answer, completion, target, no_answer=no_answer)
        return self.counted(outcome, rule)

    def counted(self, outcome: str, rule: str) -> str:
        """An outcome, with the rule behind it in words; what was answered needs none."""
        if outcome != "answered":
            self._rules[outcome, rule] += 1
        return outcome

    def _judged(self, answer: str | None, completion: str | None, target: Any, *, no_answer: bool) -> tuple[str, str]:
        blank = answer is None or not answer.strip()
        text = (completion if blank else answer) or ""
        if not text.strip() and not no_answer:
            return "failed", "there is no reply"
        if (meant := self._source.labels.outcome_of(text)) is not None:
            return meant, "the text is one of `abstain=`" if meant == "abstained" else "the text is one of `unparsed=`"
        rules = self._source.abstain_when
        is_target = isinstance(target, str) and text.strip() == target.strip()
        if not is_target and (why := rules.why(text, no_answer=no_answer)) is not None:
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
        kept = {name: _storable(value) for name, value in row.items() if name not in self._source.mapped}
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
            table = self._lines.table()
        said = [
            f"{printable(self._source.name)}: {count:,} of {self._rows:,} {self._what} "
            f"{'counts' if count == 1 else 'count'} as {outcome}: {rule}"
            for (outcome, rule), count in self._rules.items()
        ]
        if excerpt:
            said.append(f"{printable(self._source.name)}: an excerpt, {excerpt}; nothing can pass a gate on it")
        return replace(
            table,
            about=dict(about or {}),
            declared=tuple(declared),
            excerpt=excerpt,
            warnings=(*table.warnings, *said, *remarks),
        )


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
