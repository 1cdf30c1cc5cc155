"""The lines of a samples file of lm-eval: what each of them says, parsed as far as it is asked for.

A line is long for its prompts, which nobody reads here; so its fields stay as they are written until one is wanted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from steelyard.errors import InputError
from steelyard.ground.json import Flaw, NotJsonError, parse_line, without_flaws
from steelyard.halves import mended
from steelyard.records.readers.head import SIZE, Head
from steelyard.records.readers.inputs import LONGEST_LINE, Block, Input
from steelyard.records.readers.log_values import real

BY_LENGTH = ("acc_norm", "acc_bytes")
NO_SAMPLES = (
    "these are the results of lm-eval, and the answers are not in them; run it with log_samples and give the "
    "samples_*.jsonl that it writes, or their folder"
)
_OWN = frozenset(
    (
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash"),
    )
)  # every other key is a metric
_DIGITS = 400  # that no number of use has
_REFUSED = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_RESULTS_KEYS = frozenset(("configs", "group_subtasks", "versions", "n-shot", "n-samples", "higher_is_better"))


def are_results(head: Head) -> bool:
    return "results" in head.keys and len(_RESULTS_KEYS.intersection(head.keys)) > 1


class _Arguments(msgspec.Struct):
    """What was asked, without the prompt: a continuation, settings of a generation, or nothing."""

    arg_1: Any = None


_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_arguments = msgspec.json.Decoder(dict[str, _Arguments]).decode


def _value(raw: bytes | msgspec.Raw) -> Any:
    """A JSON value; a whole number of thousands of digits is null."""
    try:
        return msgspec.json.decode(raw)
    except _REFUSED:
        return json.loads(bytes(raw), parse_int=lambda digits: int(digits) if len(digits) < _DIGITS else None)


class Line:
    """One sample: its fields as they are written, each parsed when it is asked for."""

    def __init__(self, file: Input, number: int, fields: Mapping[str, msgspec.Raw]) -> None:
        self._file, self.number, self.fields = file, number, fields

    def error(self, problem: str, field: str) -> InputError:
        return self._file.error(problem, line=self.number, field=field)

    def value(self, key: str) -> Any:
        raw = self.fields.get(key)
        return None if raw is None else _value(raw)

    def text(self, key: str) -> str | None:
        value = self.value(key)
        if value is None or isinstance(value, str):
            return value
        raise self.error("text is expected", key)

    @property
    def target(self) -> str | None:
        """The target as text, as lm-eval writes it."""
        value = self.value("target")
        return value if value is None or isinstance(value, str) else str(value)

    @property
    def metrics(self) -> list[str]:
        """The names of its metrics: as it says, else every key that is not one of lm-eval's own."""
        stated = self.value("metrics")
        if isinstance(stated, list) and all(isinstance(name, str) for name in stated):
            return stated
        return [key for key in self.fields if key not in _OWN]

    @property
    def doc_id(self) -> int:
        value = self.value("doc_id")
        if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
            raise self.error("a whole number is expected", "doc_id")
        return value

    def asked(self) -> list[Any]:
        """What was asked beside the prompt, for each request."""
        raw = self.fields.get("arguments", b"[]")
        with suppress(*_REFUSED):
            return [each.arg_1 for each in _arguments(raw).values()]
        requests = _value(raw)  # a list of lists, as earlier versions wrote it
        if not isinstance(requests, list) or not all(isinstance(each, list) for each in requests):
            raise self.error("an object with the arguments of every request is expected", "arguments")
        return [each[1] if len(each) > 1 else None for each in requests]

    def replies(self) -> list[Any]:
        """What the filter made of the replies to each request."""
        value = self.value("filtered_resps")
        if not isinstance(value, list) or not value:
            raise self.error("a list of replies is expected", "filtered_resps")
        return value


def lines_of(file: Input) -> Iterator[list[Line]]:
    """The samples of a file, a block at a time."""
    number = 0
    for block in file.blocks():
        if not number and are_results(Head(name="", data=block.data[:SIZE], complete=False)):
            raise file.error(NO_SAMPLES)
        if len(block.data) > LONGEST_LINE and block.data.find(b"\n", 0, LONGEST_LINE + 1) < 0:
            raise file.error(f"the line is longer than {LONGEST_LINE // 2**20} MiB", line=number + 1)
        _check_encoding(file, block, number)
        texts = mended(block.data).split(b"\n")
        lines = []
        for place, text in enumerate(texts, number + 1):
            if text.strip():
                is_last = block.last and not any(map(bytes.strip, texts[place - number :]))
                fields = _parsed(file, text, place, is_last=is_last)
                lines += [] if fields is None else [Line(file, place, fields)]
        number += len(texts) - (not texts[-1])
        yield lines


def _check_encoding(file: Input, block: Block, before: int) -> None:
    try:
        block.data.decode()
    except UnicodeDecodeError as problem:
        if not (block.last and problem.reason == "unexpected end of data"):
            line = before + 1 + block.data.count(b"\n", 0, problem.start)
            raise file.not_utf8(block.offset + problem.start, line=line) from None


def _parsed(file: Input, text: bytes, number: int, *, is_last: bool) -> Mapping[str, msgspec.Raw] | None:
    """The fields of a line; None where it is torn and may be left out. What is no finite number is null."""
    with suppress(*_REFUSED):
        return _fields(text)
    try:
        values = parse_line(text)
    except NotJsonError as problem:
        if not (problem.torn and is_last):
            raise file.error(problem.problem, line=number) from None
        if not file.salvage:
            raise file.torn(number, number - 1) from None
        file.warnings.append(file.salvaged(number, number - 1))
        return None
    if isinstance(values, Flaw):
        raise file.error(values.problem, line=number, field=values.key)
    return {key: msgspec.Raw(json.dumps(without_flaws(value)).encode()) for key, value in values.items()}


# -- what a sample says ------------------------------------------------------------------------------------------------


def metric_of(line: Line, name: str) -> tuple[float, float]:
    """The number that a sample has for a metric, or the two; NaN for what it has not."""
    value = line.value(name)
    parts = value if isinstance(value, list) and len(value) == 2 else [value, None]
    if not all(isinstance(part, int | float) or part is None for part in parts):
        return math.nan, math.nan
    first, second = (real(part) for part in parts)
    return math.nan if first is None else first, math.nan if second is None else second


def score_of(name: str, first: float, second: float) -> float:
    """The score of one document; NaN where two numbers are none: F1 and the like are of all documents together."""
    if math.isnan(second):
        return first
    with suppress(ZeroDivisionError, OverflowError):
        if name in ("word_perplexity", "byte_perplexity"):
            return math.exp(-first / second)
        if name == "bits_per_byte":
            return -first / second / math.log(2)
    return math.nan


class Choices(NamedTuple):
    """A multiple choice: the log-likelihood of each choice, the same without the question, and their texts."""

    logs: list[float]
    alone: list[float]
    texts: list[str]

    @property
    def are_named(self) -> bool:
        """False where the choices are in the prompts, and what follows is the same."""
        return len(set(self.texts)) > 1

    def weighed(self, metric: str | None) -> list[float]:
        """What the likeliest choice is the largest of, by a metric's rule."""
        if metric == "acc_mutual_info" and self.alone:
            return [log - alone for log, alone in zip(self.logs, self.alone, strict=True)]
        if metric in BY_LENGTH and self.are_named:
            coded = [text.encode() if metric == "acc_bytes" else text for text in self.texts]
            return [log / len(text) if text else -math.inf for log, text in zip(self.logs, coded, strict=True)]
        return self.logs


def choices_of(
    line: Line, delimiter: str, metrics: Sequence[str], asked: list[Any], replies: list[Any]
) -> Choices | None:
    """The choices of a sample; None where it is not of a multiple choice."""
    if len(asked) < 2 or not all(isinstance(text, str) for text in asked):
        return None
    logs = [log_of(line, reply) for reply in replies]
    if len(logs) != len(asked):
        raise line.error("there are not as many replies as choices", "filtered_resps")
    count = len(logs) // 2 if "acc_mutual_info" in metrics and len(logs) % 2 == 0 else len(logs)
    texts = asked[:count]
    if all(text.startswith(delimiter) for text in texts):
        texts = [text[len(delimiter) :] for text in texts]
    return Choices(logs[:count], logs[count:], texts)


def log_of(line: Line, reply: Any) -> float:
    """The log-likelihood in a pair of it and whether the text is what the model would have written."""
    with suppress(TypeError, ValueError, IndexError, KeyError, OverflowError):
        return float(reply[0]) if isinstance(reply, list) else float(reply)
    raise line.error("a log-likelihood is expected", "filtered_resps")


def shares(scores: list[float]) -> list[float]:
    """The softmax of scores."""
    most = max(scores)
    parts = [math.exp(score - most) for score in scores] if math.isfinite(most) else [math.nan] * len(scores)
    return [part / sum(parts) for part in parts]


def brier(line: Line, choices: Choices) -> float:
    """The squared distance of the choices' shares from the right one, as lm-eval sums it."""
    stated = line.value("brier_score")
    gold = stated[0] if isinstance(stated, list) and stated else None
    if isinstance(gold, bool) or not isinstance(gold, int) or not 0 <= gold < len(choices.logs):
        return math.nan
    return sum((share - (place == gold)) ** 2 for place, share in enumerate(shares(choices.logs)))


def reply_of(value: Any) -> str | None:
    """What a filter made of a reply, as text; the first where it left several."""
    if isinstance(value, list):
        value = value[0] if value else None
    return value if value is None or isinstance(value, str) else str(value)


def completion_of(line: Line) -> str | None:
    """The first reply that says something, as the model gave it."""
    waiting = [line.value("resps")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += reversed(value)
        elif isinstance(value, str) and value.strip():
            return value
    return None
