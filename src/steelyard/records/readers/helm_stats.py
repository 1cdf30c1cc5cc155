"""The statistics of a HELM run: what each instance has for each metric, and the means that the run states.

    per_instance_stats.json   [{"instance_id": "id7", "train_trial_index": 0, "perturbation": {"name": "typos", …},
                                "stats": [{"name": {"name": "exact_match", "split": "test", …}, "sum": 1, "count": 1}]}]
    stats.json                [{"name": {"name": "exact_match", "split": "test"}, "count": 1, "mean": 0.25}, …]

A stated mean is over the instances of a split and a perturbation within a trial, then over the trials; perplexity and
bits per byte are of the sums of a trial. What HELM computes across perturbations (the worst of them) or of all
confidences together is not made again.
"""

from __future__ import annotations

import json
import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np

from steelyard.errors import InputError
from steelyard.ground.json import NotJsonError, parse_document, without_flaws
from steelyard.halves import mended
from steelyard.records.declared import Declared
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.json_elements import BrokenError, Elements

ORIGINAL = ""  # the description of no perturbation
_SUMMED = ("inference_runtime", "num_prompt_tokens", "num_output_tokens", "num_completion_tokens")
_BOOKKEEPING = ("num_", "training_", "inference_", "finish_reason_")
_NOT_SCORES = frozenset(("batch_size", "prompt_truncated", "max_prob", "logprob", "predicted_index"))
_Element = TypeVar("_Element")


class Name(msgspec.Struct, frozen=True):
    """What a statistic is of."""

    name: str
    split: str | None = None
    sub_split: str | None = None
    perturbation: dict[str, Any] | None = None


class Stat(msgspec.Struct):
    """A statistic: how many values there were, and their sum and mean."""

    name: Name
    count: float = 0
    sum: float | None = None
    mean: float | None = None


class _Instance(msgspec.Struct):
    """The statistics of an instance by one metric of the run."""

    instance_id: str | int
    stats: list[Stat]
    train_trial_index: int = 0
    perturbation: dict[str, Any] | None = None


class Key(NamedTuple):
    """An instance as it was asked: its id, the trial, and how it was perturbed."""

    item: str | int
    trial: int
    perturbation: str


class _Context(NamedTuple):
    """What a mean is over."""

    split: str | None
    sub_split: str | None
    perturbation: str


def described(perturbation: Mapping[str, Any] | None) -> str:
    """A perturbation as a text that is the same for the same one."""
    return ORIGINAL if perturbation is None else json.dumps(perturbation, sort_keys=True)


def elements(file: Input, path: tuple[str, ...], kind: type[_Element]) -> Iterator[_Element]:
    """The elements of an array in a file; with `salvage`, those before the place where it ends early."""
    decoder = msgspec.json.Decoder(kind)
    document = Elements(file.chunks(), path)
    number = 0
    try:
        for number, raw in enumerate(document, 1):
            yield _decoded(file, decoder, raw, kind, number)
    except BrokenError as problem:
        if not problem.torn:
            raise file.error(problem.problem) from None
        if not file.salvage:
            raise file.torn(number + 1, number) from None
        file.warnings.append(file.salvaged(number + 1, number))
    if not document.found:
        raise file.error(f"a list '{path[-1]}' is expected" if path else "a list is expected")


def _decoded(
    file: Input, decoder: msgspec.json.Decoder[_Element], raw: bytes, kind: type[_Element], number: int
) -> _Element:
    try:
        return decoder.decode(mended(raw))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(without_flaws(parse_document(raw)), kind)
    except NotJsonError as problem:
        raise file.error(problem.problem, line=number) from None
    except msgspec.ValidationError as problem:
        raise unexpected(file, problem, number) from None


def unexpected(file: Input, problem: msgspec.ValidationError, number: int | None = None) -> InputError:
    """What is not as HELM writes it: the kind that is expected, and where, without the value."""
    what, _, place = str(problem).partition(" - at ")
    return file.error(
        f"not as HELM writes it: {what[:1].lower()}{what[1:]}", line=number, field=place.strip("`$.") or None
    )


class Stats:
    """The statistics of all instances of a run, held as numbers."""

    def __init__(self) -> None:
        self._rows: dict[Key, int] = {}
        self._values: dict[str, array[float]] = {}
        self._sums: dict[tuple[_Context, str], dict[int, list[float]]] = defaultdict(dict)
        self.perturbations: dict[str, Mapping[str, Any]] = {}

    @classmethod
    def read(cls, file: Input) -> Stats:
        """The statistics in a file."""
        stats = cls()
        for instance in elements(file, (), _Instance):
            stats._add(instance)
        return stats

    def _add(self, instance: _Instance) -> None:
        perturbation = described(instance.perturbation)
        if instance.perturbation is not None:
            self.perturbations[perturbation] = instance.perturbation
        key = Key(instance.instance_id, instance.train_trial_index, perturbation)
        row = self._rows.setdefault(key, len(self._rows))
        for stat in instance.stats:
            if stat.count < 1 or stat.sum is None:
                continue
            name = stat.name
            column = self._values.setdefault(name.name, array("d"))
            column.extend([math.nan] * (row + 1 - len(column)))
            column[row] = stat.sum if name.name in _SUMMED else stat.sum / stat.count
            context = _Context(name.split, name.sub_split, described(name.perturbation))
            total = self._sums[context, name.name].setdefault(key.trial, [0.0, 0.0])
            total[0] += stat.sum
            total[1] += stat.count

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: Key) -> bool:
        return key in self._rows

    def names(self) -> tuple[str, ...]:
        """The metrics that are scores, in the order in which they were met."""
        return tuple(name for name in self._values if name not in _NOT_SCORES and not name.startswith(_BOOKKEEPING))

    def value(self, key: Key, name: str) -> float | None:
        """What an instance has for a metric."""
        row, column = self._rows.get(key), self._values.get(name)
        if row is None or column is None or row >= len(column) or math.isnan(column[row]):
            return None
        return column[row]

    def judges(self, name: str) -> bool:
        """True if a metric is 0 or 1 on every instance that has it."""
        values = np.frombuffer(self._values[name], float)
        return bool((np.isnan(values) | np.isin(values, (0.0, 1.0))).all())

    def has_logprobs(self) -> bool:
        """False where every log-probability is 0, which HELM writes for models that give none."""
        return any(value < 0 for value in self._values.get("logprob", ())) or "logprob" not in self._values

    def mean(self, name: Name) -> float | None:
        """What HELM would state for a statistic, None where that is not made again."""
        context = _Context(name.split, name.sub_split, described(name.perturbation))
        derived = _DERIVED.get(name.name)
        per_trial = self._sums.get((context, name.name))
        if per_trial is not None:
            return float(np.mean([total / count for total, count in per_trial.values()]))
        if derived is None:
            return None
        logs, sizes = (self._sums.get((context, part), {}) for part in ("logprob", derived[0]))
        rates = [logs[trial][0] / sizes[trial][0] for trial in logs if trial in sizes and sizes[trial][0] > 0]
        return float(np.mean([derived[1](rate) for rate in rates])) if rates else None


def _perplexity(rate: float) -> float:
    try:
        return math.exp(-rate)
    except OverflowError:
        return math.inf


_DERIVED = {
    "perplexity": ("num_perplexity_tokens", _perplexity),
    "bits_per_byte": ("num_bytes", lambda rate: -rate / math.log(2)),
    "logprob_per_byte": ("num_bytes", lambda rate: rate),
}


def declared(file: Input, stats: Stats, instances: Mapping[tuple[str | None, str], float]) -> Iterator[Declared]:
    """The means that a run states, next to the same made of its instances.

    `instances` are how many there are of a split and a perturbation in a trial.
    """
    for stat in elements(file, (), Stat):
        if stat.mean is None or not stat.count:
            continue
        name = stat.name
        recomputed = stats.mean(name)
        if name.name == "num_instances" and name.sub_split is None:
            recomputed = instances.get((name.split, described(name.perturbation)))
        yield Declared(name=_shown(name), stated=stat.mean, recomputed=recomputed)


def _shown(name: Name) -> str:
    """The name of a mean, with what it is over."""
    how = (name.perturbation or {}).get("name")
    computed_on = (name.perturbation or {}).get("computed_on", "perturbed")
    if how is not None and computed_on != "perturbed":
        how = f"{computed_on} of {how}"
    over = ", ".join(str(part) for part in (name.split, name.sub_split, how) if part is not None)
    return f"{name.name} ({over})" if over else name.name
