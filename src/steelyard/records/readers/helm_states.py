"""The requests of a HELM run: how instances were asked, what came of it, and what perturbations are called.

Of each only the fields that are read; prompts and tokens, which fill the files, are passed over.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from steelyard.records.readers.helm_stats import Key, described

_SAID = ("name", "robustness", "fairness", "computed_on")  # what every description of a perturbation has


class Adapter(msgspec.Struct):
    """How instances were asked."""

    method: str = ""
    model: str | None = None
    model_deployment: str | None = None
    num_train_trials: int = 1
    num_trials: int = 1
    max_train_instances: int | None = None
    max_eval_instances: int | None = None
    num_outputs: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None


class Spec(msgspec.Struct):
    """What a run was to do."""

    name: str
    adapter_spec: Adapter


class _Text(msgspec.Struct):
    """The text of a reference."""

    text: str = ""


class Reference(msgspec.Struct):
    """A possible answer; earlier versions wrote its text alone."""

    output: _Text | str
    tags: list[str] = []

    @property
    def text(self) -> str:
        return self.output if isinstance(self.output, str) else self.output.text


class Instance(msgspec.Struct):
    """A question."""

    id: str | int
    split: str | None = None
    sub_split: str | None = None
    perturbation: dict[str, Any] | None = None
    references: list[Reference] = []


class _Completion(msgspec.Struct):
    """What a model wrote."""

    text: str = ""
    logprob: float | None = 0.0


class _Result(msgspec.Struct):
    """What came of a request."""

    success: bool = True
    completions: list[_Completion] = []
    request_time: float | None = None
    request_datetime: float | None = None


class _Request(msgspec.Struct):
    """What was asked, without the prompt: the seed tells trials apart that ask the same."""

    random: str | None = None


class State(msgspec.Struct):
    """A request and its result."""

    instance: Instance
    request: _Request | None = None
    reference_index: int | None = None  # the reference that was asked about, where each is a request of its own
    train_trial_index: int = 0
    output_mapping: dict[str, str] | None = None
    result: _Result | None = None

    @property
    def key(self) -> Key:
        return Key(self.instance.id, self.train_trial_index, described(self.instance.perturbation))

    @property
    def seed(self) -> str | None:
        return self.request.random if self.request is not None else None

    @property
    def completion(self) -> str | None:
        """The likeliest completion, the first of equals; None where there is none."""
        if self.result is None or not self.result.success or not self.result.completions:
            return None
        best = max(self.result.completions, key=lambda each: -math.inf if each.logprob is None else each.logprob)
        return best.text.strip()


def called(perturbations: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The names of perturbations; those that share one are told apart by what differs in them."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for description, perturbation in perturbations.items():
        by_name[full_name(perturbation, ())].append(description)
    names: dict[str, str] = {}
    for name, same in by_name.items():
        parts = [perturbations[description] for description in same]
        keys = sorted({key for part in parts for key in part if key not in _SAID})
        differing = [key for key in keys if len({str(part.get(key)) for part in parts}) > 1]
        names |= {each: full_name(perturbations[each], differing) if len(same) > 1 else name for each in same}
    return names


def full_name(perturbation: Mapping[str, Any], differing: Sequence[str]) -> str:
    name = str(perturbation.get("name", "perturbed"))
    apart = ", ".join(f"{key}={perturbation.get(key)}" for key in differing)
    return f"{name}({apart})" if apart else name
