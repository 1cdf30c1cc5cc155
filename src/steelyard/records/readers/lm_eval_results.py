"""What lm-eval writes of a run as a whole, results_<time>.json: the model, how each task was set up, and its numbers.

    {"results": {"mmlu": {"acc,none": 0.4, "acc_stderr,none": 0.24, "brier_score,none": 0.67, …}},
     "configs": {"mmlu": {"output_type": "multiple_choice", "target_delimiter": " ", "metric_list": […], …}},
     "n-samples": {"mmlu": {"original": 100, "effective": 5}}, "config": {"limit": 5, "random_seed": 0, …},
     "model_name": "acme/tiny", "lm_eval_version": "0.4.13", …}

A number is made again of the samples by lm-eval's own definition, where that is known: a mean with the standard error
of independent rows, perplexities weighted by words or bytes, F1 of the label 1, Matthews' correlation, the Brier score
summed over the choices. Other aggregations, and standard errors that were bootstrapped, are not made again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np

from steelyard.ground.arrays import Floats
from steelyard.ground.json import NotJsonError, parse_document, without_flaws
from steelyard.records.declared import Declared
from steelyard.records.readers.inputs import Input

LARGEST = 64 * 2**20  # bytes of a results file
_MODEL_ARGUMENTS = ("peft", "delta", "pretrained", "model", "path", "engine")  # as lm-eval looks for the name
_INVALID = "[invalid]"  # what its filters write where a pattern does not match
_RUN_FACTS = {
    "tool_version": ("lm_eval_version",),
    "git_commit": ("git_hash",),
    "model": ("model_name",),
    "model_source": ("model_source",),
    "seed": ("config", "random_seed"),
    "numpy_seed": ("config", "numpy_seed"),
    "torch_seed": ("config", "torch_seed"),
    "fewshot_seed": ("config", "fewshot_seed"),
    "limit": ("config", "limit"),
    "system_instruction_sha": ("system_instruction_sha",),
    "chat_template_sha": ("chat_template_sha",),
}
_TASK_FACTS = {
    "task_version": "versions",
    "task_hash": "task_hashes",
    "num_fewshot": "n-shot",
}


@dataclass(frozen=True, kw_only=True)
class Values:
    """What the samples of a task and a filter have for a metric: one number each, or two; NaN where they have none."""

    first: Floats
    second: Floats


class Results:
    """A results file."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document

    @classmethod
    def of(cls, source: Input) -> Results | None:
        """The results in a file; None where it is something else."""
        try:
            document = without_flaws(parse_document(source.text(LARGEST)))
        except NotJsonError as problem:
            raise source.error(f"{problem.problem}; the results of lm-eval are expected", line=problem.line) from None
        is_one = isinstance(document, dict) and isinstance(document.get("results"), dict)
        return cls(document) if is_one else None

    def tasks(self) -> tuple[str, ...]:
        """The tasks and groups that have results."""
        return tuple(self._document["results"])

    @property
    def model(self) -> str | None:
        """The model's name: as lm-eval found it, else as the arguments say, else the kind of the model."""
        arguments = self._at("config", "model_args")
        if isinstance(arguments, str):
            pairs = (part.partition("=") for part in arguments.split(","))
            arguments = {key.strip(): value.strip() for key, _, value in pairs}
        named = arguments if isinstance(arguments, dict) else {}
        stated = (self._at("model_name"), *(named.get(key) for key in _MODEL_ARGUMENTS), self._at("model_source"))
        return next((name for name in stated if isinstance(name, str) and name.strip()), None)

    def delimiter(self, task: str) -> str:
        """What stands between a prompt and a choice; a chat template takes its place."""
        stated = self._at("configs", task, "target_delimiter")
        if self._at("chat_template") and not self._at("configs", task, "gen_prefix"):
            return ""
        return stated if isinstance(stated, str) else " "

    def no_match(self, task: str) -> frozenset[str]:
        """What the filters of a task write where they find no answer."""
        lists = self._at("configs", task, "filter_list")
        steps = (
            step
            for each in (lists if isinstance(lists, list) else ())
            if isinstance(each, dict) and isinstance(each.get("filter"), list)
            for step in each["filter"]
            if isinstance(step, dict)
        )
        stated = (step.get("fallback") for step in steps)
        return frozenset((_INVALID, *(text for text in stated if isinstance(text, str))))

    def counts(self, task: str) -> tuple[int | None, int | None]:
        """How many documents the task has, and how many were run."""
        stated = [self._at("n-samples", task, key) for key in ("original", "effective")]
        original, effective = (n if isinstance(n, int) and not isinstance(n, bool) else None for n in stated)
        return original, effective

    def facts(self, tasks: tuple[str, ...]) -> dict[str, str]:
        """What is known of the run, and of the task where there is one."""
        facts = {name: self._at(*path) for name, path in _RUN_FACTS.items()}
        facts["model"] = self.model
        facts["created"] = _moment(self._at("date"))
        if len(tasks) == 1:
            facts |= {name: self._at(key, tasks[0]) for name, key in _TASK_FACTS.items()}
            facts["temperature"] = self._at("configs", tasks[0], "generation_kwargs", "temperature")
        plain = {name: value for name, value in facts.items() if isinstance(value, str | int | float)}
        return {name: str(value) for name, value in plain.items() if value != ""}

    def declared(self, task: str, values: Callable[[str, str], Values | None], *, alone: bool) -> Iterator[Declared]:
        """The numbers that are stated of a task, next to the same made of `values(metric, filter)`."""
        stated = self._at("results", task)
        for key, number in (stated if isinstance(stated, dict) else {}).items():
            name, comma, filter_name = key.partition(",")
            if not comma or isinstance(number, bool) or not isinstance(number, int | float):
                continue
            metric = name.removesuffix("_stderr")
            given = values(metric, filter_name)
            aggregation = self._aggregation(task, metric)
            recomputed = None
            if given is not None and metric == name:
                recomputed = _AGGREGATIONS[aggregation](given) if aggregation in _AGGREGATIONS else None
            elif given is not None and aggregation == "mean":
                recomputed = _standard_error(given)
            yield Declared(name=key if alone else f"{task}: {key}", stated=float(number), recomputed=recomputed)

    def _aggregation(self, task: str, metric: str) -> str:
        """How lm-eval makes one number of a metric's values: as the task says, else what the metric's own way is."""
        listed = self._at("configs", task, "metric_list")
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict) and each.get("metric") == metric and each.get("aggregation") is not None:
                return str(each["aggregation"])
        return _OWN_WAY.get(metric, "mean")

    def _at(self, *path: str) -> Any:
        value: Any = self._document
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        return value


def _moment(seconds: Any) -> str | None:
    if isinstance(seconds, int | float):
        with suppress(ValueError, OverflowError, OSError):
            return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return None


# -- lm-eval's aggregations --------------------------------------------------------------------------------------------


def _mean(values: Values) -> float | None:
    return float(values.first.mean()) if _is_whole(values.first) else None


def _standard_error(values: Values) -> float | None:
    size = len(values.first)
    return float(values.first.std(ddof=1) / math.sqrt(size)) if size > 1 and _is_whole(values.first) else None


def _nanmean(values: Values) -> float | None:
    stated = values.first[~np.isnan(values.first)]
    return float(stated.mean()) if len(stated) else None


def _median(values: Values) -> float | None:
    return float(np.sort(values.first)[len(values.first) // 2]) if _is_whole(values.first) else None


def _perplexity(values: Values) -> float | None:
    mean = _mean(values)
    return None if mean is None else _exp(-mean)


def _weighted_mean(values: Values) -> float | None:
    is_whole = _is_whole(values.first) and _is_whole(values.second) and values.second.sum() > 0
    return float(values.first.sum() / values.second.sum()) if is_whole else None


def _weighted_perplexity(values: Values) -> float | None:
    mean = _weighted_mean(values)
    return None if mean is None else _exp(-mean)


def _bits_per_byte(values: Values) -> float | None:
    mean = _weighted_mean(values)
    return None if mean is None else -mean / math.log(2)


def _f1(values: Values) -> float | None:
    gold, predicted = values.first, values.second
    if not (np.isin(gold, (0, 1)).all() and np.isin(predicted, (0, 1)).all()):
        return None
    named = gold.sum() + predicted.sum()
    return float(2 * (gold * predicted).sum() / named) if named else 0.0


def _matthews(values: Values) -> float | None:
    if not (_is_whole(values.first) and _is_whole(values.second)):
        return None
    labels = np.unique(np.concatenate((values.first, values.second)))
    gold, predicted = values.first[:, None] == labels, values.second[:, None] == labels
    size = float(len(gold))
    golds, predictions, hits = gold.sum(0, float), predicted.sum(0, float), float((gold & predicted).sum())
    spread = (size**2 - golds @ golds) * (size**2 - predictions @ predictions)
    return float((hits * size - golds @ predictions) / math.sqrt(spread)) if spread > 0 else 0.0


def _is_whole(values: Floats) -> bool:
    return len(values) > 0 and not bool(np.isnan(values).any())


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


_AGGREGATIONS: Mapping[str, Callable[[Values], float | None]] = {
    "mean": _mean,
    "nanmean": _nanmean,
    "median": _median,
    "perplexity": _perplexity,
    "weighted_perplexity": _weighted_perplexity,
    "bits_per_byte": _bits_per_byte,
    "f1": _f1,
    "matthews_corrcoef": _matthews,
    "brier_score": _mean,  # of what the reader makes of each sample
}
_OWN_WAY = {
    "perplexity": "perplexity",
    "word_perplexity": "weighted_perplexity",
    "byte_perplexity": "weighted_perplexity",
    "bits_per_byte": "bits_per_byte",
    "f1": "f1",
    "mcc": "matthews_corrcoef",
    "brier_score": "brier_score",
    **dict.fromkeys(("bleu", "chrf", "chrf++", "ter", "bypass"), "of its own"),
}
