"""How the output of a PHQ-8 run becomes rows: one item of one participant each, every mode of the file.

    {"run_metadata": {"run_id": …, "git_commit": …},
     "experiments": [{"provenance": {"mode": …},
                      "results": {"mode": …, "results": [{"participant_id": …, "success": true,
                          "ground_truth_items": {"Sleep": 2, …}, "predicted_items": {"Sleep": null, …},
                          "item_signals": {"Sleep": {"llm_evidence_count": 1, …}, …}}]}}]}

The mode becomes `strategy`, the participant `cluster`, the item's name `group.item`, signals `signal.*`. A participant
without success has eight failed rows. In errors, the line is the one on which the participant's object begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import numpy as np

from steelyard.errors import InputError, printable
from steelyard.ground.json import NotJsonError, first_flaw, parse_document
from steelyard.ground.json_places import element_lines
from steelyard.records.readers.contract import MOST_COLUMNS, Certainty, Column, Table, reader
from steelyard.records.readers.head import Head
from steelyard.records.readers.inputs import Input
from steelyard.records.schema import SHOWN, to_arrow
from steelyard.records.task import Task
from steelyard.registry import closest

ITEMS = ("NoInterest", "Depressed", "Sleep", "Tired", "Appetite", "Failure", "Concentrating", "Moving")
HIGHEST = 3
LARGEST = 256 * 2**20  # bytes; a run has a few thousand rows
_KNOWN_SIGNALS = (
    "llm_evidence_count", "evidence_source", "retrieval_reference_count", "retrieval_similarity_mean",
    "retrieval_similarity_max", "verbalized_confidence", "token_msp", "token_pe", "token_energy",
    "consistency_modal_score", "consistency_modal_count", "consistency_modal_confidence", "consistency_score_std",
    "consistency_na_rate",
)  # fmt: skip


def sniff(head: Head) -> Certainty:
    """The document has its keys within sight; a text that is empty or in another encoding is refused by `load`."""
    if head.container:
        return "no"
    if head.text is None or not head.text.strip():
        return "maybe"
    return ("no", "likely", "sure")[len({"run_metadata", "experiments"}.intersection(head.keys))]


@reader(
    "phq8",
    about="the output of a PHQ-8 run, a JSON object with run_metadata and experiments",
    suffixes=(".json",),
    sniff=sniff,
)
def load(source: Input) -> Table:
    """The rows of a run output."""
    text = source.text(LARGEST)
    value = _document(source, text)
    lines = element_lines(text.decode(), ("experiments", None, "results", "results", None))
    _refuse_flaws(source, value, lines)
    document = _Value(source, value, "")
    metadata = document.get("run_metadata", dict)
    rows = _Rows(source, lines)
    seen: dict[str, str] = {}
    for place, experiment in enumerate(document.need("experiments", list).each()):
        results = experiment.need("results", dict)
        mode = _mode(experiment, results)
        if mode in seen:
            results.refuse(f"a second experiment of the mode '{printable(mode)}', first at {seen[mode]}")
        seen[mode] = experiment.path
        rows.add(mode, place, results)
    if not rows.lines:
        raise source.error("there are no participants", field="experiments")
    about = {key: metadata.text(key) for key in ("run_id", "git_commit", "timestamp")} if metadata else {}
    return rows.table({key: value for key, value in about.items() if value is not None})


def _document(source: Input, text: bytes) -> Any:
    try:
        return parse_document(text)
    except NotJsonError as wrong:
        if wrong.byte is not None and not wrong.torn:
            raise source.not_utf8(wrong.byte + source.mark) from None
        problem = "the text ends early" if wrong.torn else wrong.problem
        raise source.error(f"{problem}; the JSON output of a run is expected", line=wrong.line) from None


def _refuse_flaws(source: Input, document: Any, lines: Mapping[tuple[int, ...], int]) -> None:
    """Refuse what the usual parsers let pass, wherever it is."""
    first = first_flaw(document)
    if first is None:
        return
    path, flaw = first
    inside = len(path) > 4 and (path[0], path[2], path[3]) == ("experiments", "results", "results")
    place = (int(path[1]), int(path[4])) if inside else ()
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")
    raise source.error(flaw.problem, line=lines.get(place), field=field or None)


def _mode(experiment: _Value, results: _Value) -> str:
    """The mode of an experiment: stated in its provenance, its results, or both alike."""
    provenance = experiment.get("provenance", dict)
    stated = [value for part in (provenance, results) if part and (value := part.text("mode")) is not None]
    if not all(stated) or not stated:
        results.refuse("the mode is missing: one is expected here or in provenance", key="mode")
    if len(set(stated)) > 1:
        results.refuse("differs from the mode in provenance", key="mode")
    return stated[0]


class _Value:
    """A value of the document and its place; asks for parts and refuses what is not as documented."""

    def __init__(self, source: Input, value: Any, path: str, line: int | None = None) -> None:
        self.source, self.value, self.path, self.line = source, value, path, line

    def refuse(self, problem: str, *, key: str | None = None) -> NoReturn:
        field = ".".join(part for part in (self.path, key) if part)
        raise self.source.error(problem, line=self.line, field=field or None)

    def get(self, key: str, kind: type) -> _Value | None:
        """The part of that name, None where it is absent or null."""
        if not isinstance(self.value, dict):
            self.refuse("an object is expected")
        if self.value.get(key) is None:
            return None
        part = _Value(self.source, self.value[key], f"{self.path}.{key}" if self.path else key, self.line)
        if not isinstance(part.value, kind):
            part.refuse(f"{_KINDS[kind]} is expected")
        return part

    def need(self, key: str, kind: type) -> _Value:
        """The part of that name, which must be there."""
        part = self.get(key, kind)
        if part is None:
            hint = "" if self.path else "; the output of a run has run_metadata and experiments"
            self.refuse(f"is missing: {_KINDS[kind]} is expected{hint}", key=key)
        return part

    def text(self, key: str) -> str | None:
        part = self.get(key, str)
        return None if part is None else str(part.value)

    def each(self, line: Callable[[int], int] | None = None) -> Iterator[_Value]:
        for place, value in enumerate(self.value):
            part = _Value(self.source, value, f"{self.path}[{place}]", line(place) if line else None)
            if not isinstance(value, dict):
                part.refuse("an object is expected")
            yield part


_KINDS = {dict: "an object", list: "a list", str: "text", bool: "true or false"}


class _Rows:
    """The rows so far, column by column."""

    def __init__(self, source: Input, starts: Mapping[tuple[int, ...], int]) -> None:
        self._source, self._starts = source, starts
        self.lines: list[int] = []
        self._columns: dict[str, list[Any]] = {
            name: []
            for name in ("strategy", "model", "item", "cluster", "group.item", "target", "prediction", "outcome")
        }
        self._signals: dict[str, dict[int, Any]] = {}
        self._lists: set[str] = set()  # signals that are no single value

    def add(self, mode: str, experiment: int, results: _Value) -> None:
        model = results.text("model")
        first: dict[Any, int] = {}
        people = results.need("results", list).each(lambda place: self._starts.get((experiment, place), 1))
        for participant in people:
            who = _participant_id(participant)
            if who in first:
                participant.refuse(
                    f"participant {printable(who)} appears twice in mode '{printable(mode)}', "
                    f"first at line {first[who]}"
                )
            first[who] = participant.line or 1
            self._participant(mode, model, who, participant)

    def _participant(self, mode: str, model: str | None, who: str | int, participant: _Value) -> None:
        success = participant.need("success", bool).value
        target = _scores(participant, who, "ground_truth_items", required=success)
        prediction = _scores(participant, who, "predicted_items", nullable=True, required=success)
        signals = _by_item(participant, who, "item_signals")
        for item in ITEMS:
            row = len(self.lines)
            self.lines.append(participant.line or 1)
            values = (
                mode,
                model,
                f"{who}/{item}",
                who,
                item,
                target.get(item),
                prediction.get(item) if success else None,
            )
            outcome = "failed" if not success else "answered" if values[-1] is not None else "abstained"
            for column, value in zip(self._columns.values(), (*values, outcome), strict=True):
                column.append(value)
            given = signals.get(item, dict) if signals else None
            if given is not None:
                self._take_signals(row, given)

    def _take_signals(self, row: int, signals: _Value) -> None:
        for name, value in signals.value.items():
            if name not in self._signals and len(self._signals) + len(self._columns) >= MOST_COLUMNS:
                signals.refuse(f"more than {MOST_COLUMNS:,} different fields", key=name)
            by_row = self._signals.setdefault(name, {})
            if isinstance(value, list | dict):
                if name in _KNOWN_SIGNALS:
                    signals.refuse("a single value is expected", key=name)
                self._lists.add(name)
            elif value is not None:
                by_row[row] = value

    def table(self, about: dict[str, str]) -> Table:
        size = len(self.lines)
        lines = np.array(self.lines, np.int64)
        named = {name: values for name, values in self._columns.items() if name != "model" or any(values)}
        for name, by_row in self._signals.items():
            if name in self._lists:
                continue
            named[f"signal.{name}"] = [by_row.get(row) for row in range(size)]
        columns: dict[str, Column] = {}
        for original, values in named.items():
            name = self._source.column(original)
            if name in columns:
                raise self._source.taken(name)
            columns[name] = self._array(name, values)
        lost = [f"signal '{printable(name)}' holds lists or objects and is left out" for name in sorted(self._lists)]
        return Table(columns, size, lines=lines, warnings=tuple(lost), task=Task(range=float(HIGHEST)), about=about)

    def _array(self, name: str, values: list[Any]) -> Column:
        try:
            return to_arrow(name, values, lambda row: (self._source.name, self.lines[row]))
        except InputError as problem:
            raise self._source.error(problem.problem, line=problem.line, field=name) from None


def _participant_id(participant: _Value) -> str | int:
    who = participant.value.get("participant_id")
    if isinstance(who, bool) or not isinstance(who, str | int) or who == "":
        participant.refuse("a whole number or a text is expected", key="participant_id")
    return who


def _by_item(participant: _Value, who: str | int, key: str) -> _Value | None:
    by_item = participant.get(key, dict)
    for item in by_item.value if by_item else ():
        if item not in ITEMS:
            near = closest(str(item), list(ITEMS))
            hint = f"did you mean '{near}'?" if near else f"the items are {', '.join(ITEMS)}"
            participant.refuse(f"participant {printable(who)} has an unknown item '{printable(item)}'; {hint}", key=key)
    return by_item


def _scores(participant: _Value, who: str | int, key: str, *, nullable: bool = False, required: bool) -> dict[str, Any]:
    """The scores of the eight items; what is missing or out of range is an error with participant and item."""
    by_item = _by_item(participant, who, key)
    if by_item is None and required:
        participant.refuse(f"participant {printable(who)} has no scores here", key=key)
    scores: dict[str, Any] = by_item.value if by_item else {}
    for item in ITEMS:
        if item not in scores:
            if required:
                participant.refuse(f"participant {printable(who)} lacks the item {item}", key=key)
            continue
        value = scores[item]
        if value is None and (nullable or not required):
            continue
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= HIGHEST:
            what = f"{SHOWN['int']} from 0 to {HIGHEST}{' or null' if nullable else ''}"
            participant.refuse(f"participant {printable(who)}, item {item}: {what} is expected", key=f"{key}.{item}")
    return scores
