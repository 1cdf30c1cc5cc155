"""How a run directory of HELM becomes rows: one per instance, trial and perturbation. A suite is a folder of them.

    run_spec.json             the name of the run, its model, and how the instances were asked
    scenario_state.json       {"request_states": [{"instance": {"id", "split", "perturbation", "references"},
                               "train_trial_index", "output_mapping", "result": {"success", "completions"}}, …]}
    per_instance_stats.json   what every metric found, joined by instance, trial and perturbation
    stats.json                the means that the run states

The item is the instance's id, the task is the run's name without the model, `group.split` the split, `perturbation`
the perturbation's name (with what tells several of one name apart), `repeat` the trial where there are several.

One metric counts: exact_match, or its next kin that the run has, else the first that says right or wrong everywhere, or
the one asked for as `scorer=`. It is the mark; all scores are `score.<metric>`. The prediction is the likeliest
completion; where the choices were in the prompt it is the choice's letter, where each choice was a request of its own
the place of the likeliest. The confidence is `max_prob`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import msgspec

from steelyard.errors import printable
from steelyard.halves import mended
from steelyard.records.declared import Declared
from steelyard.records.readers.contract import Certainty, Table, reader
from steelyard.records.readers.head import Head
from steelyard.records.readers.helm_states import Adapter, Instance, Reference, Spec, State, called, full_name
from steelyard.records.readers.helm_stats import ORIGINAL, Key, Stats, declared, elements, unexpected
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.logged import Samples, chosen

_STATE, _STATS, _SPEC, _MEANS = "scenario_state.json", "per_instance_stats.json", "run_spec.json", "stats.json"
_LARGEST = 16 * 2**20  # bytes of a run's specification
_DEEPEST = 3  # folders below the one that is given, as in runs/<suite>/<run>
_KIN = ("exact_match", "quasi_exact_match", "prefix_exact_match", "quasi_prefix_exact_match")
_CORRECT = "correct"
_MODELLING = "language_modeling"  # no question: the likelihood of a text is taken
_ANOTHER = "another"  # the answer where it is known only that it was not the right one


def sniff(head: Head) -> Certainty:
    """A folder, or folders in it, with the files of a run."""
    folders: dict[str, set[str]] = defaultdict(set)
    for name in head.members or ():
        folder, _, own = name.rpartition("/")
        if name.count("/") <= _DEEPEST:
            folders[folder].add(own)
    return "sure" if any({_STATE, _SPEC} <= names or {_STATS, _SPEC} <= names for names in folders.values()) else "no"


@reader("helm", about="a run directory of HELM, or a folder of several", sniff=sniff, takes="bundle")
def load(source: Input) -> Table:
    """The rows of a run, or of all runs in a folder."""
    names = source.bundle.names() if source.bundle is not None else ()
    folders = [name.removesuffix(_SPEC) for name in names if name.rpartition("/")[2] == _SPEC]
    if not folders:
        raise source.error(f"there is no {_SPEC}; the folder of a HELM run is expected, or of several")
    samples = Samples(source, what="instances")
    runs = [_Run(source, samples, folder) for folder in folders]
    missing = [name for folder in folders for name in (f"{folder}{_STATE}",) if name not in names]
    if missing:
        raise source.error(f"there is no {printable(missing[0])}, which has the answers")
    for run in runs:
        run.read()
    if source.scorers:
        chosen(source, list(dict.fromkeys(name for run in runs for name in run.metrics)), what="metric")
    return samples.table(
        about=runs[0].facts() if len(runs) == 1 else {"tool": "helm", "runs": str(len(runs))},
        declared=[each for run in runs for each in run.declared("" if len(runs) == 1 else f"{run.task}: ")],
        excerpt="; ".join(filter(None, (run.excerpt() for run in runs))),
        remarks=[remark for run in runs for remark in run.remarks],
    )


@dataclass(frozen=True)
class _Answer:
    """What the model answered, and what would have been right."""

    target: str | None
    prediction: str | None
    outcome: str


class _Run:
    """The rows of one run directory."""

    def __init__(self, source: Input, samples: Samples, folder: str) -> None:
        self._source, self._samples, self._folder = source, samples, folder
        self._spec = self._specification()
        self._stats = Stats()
        self._counted: tuple[str | None, ...] = (None,)
        self._names: dict[str, str] = {}  # what perturbations are called
        self._instances: Counter[tuple[str | None, str]] = Counter()
        self._trials: set[int] = set()
        self._rows = 0
        self._unscored = 0
        self._scored = 0
        self._created: float | None = None
        self._means: list[Declared] = []
        self.remarks: list[str] = []

    @property
    def task(self) -> str:
        """The name of the run without its model."""
        scenario, colon, arguments = self._spec.name.partition(":")
        kept = [part for part in arguments.split(",") if not part.startswith(("model=", "model_deployment="))]
        return f"{scenario}:{','.join(kept)}" if colon and any(kept) else scenario

    @property
    def metrics(self) -> tuple[str, ...]:
        return self._stats.names()

    def _specification(self) -> Spec:
        file = self._source.member(f"{self._folder}{_SPEC}")
        text = file.text(_LARGEST)
        try:
            return msgspec.json.decode(mended(text), type=Spec)
        except msgspec.ValidationError as problem:
            raise unexpected(file, problem) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise file.error("not valid JSON; the specification of a HELM run is expected") from None

    def _file(self, name: str) -> Input | None:
        bundle, path = self._source.bundle, f"{self._folder}{name}"
        return self._source.member(path) if bundle is not None and path in bundle.names() else None

    def read(self) -> None:
        """Add the rows."""
        file = self._file(_STATS)
        if file is None:
            self.remarks.append(f"{self._place}: there is no {_STATS}, so answers are compared with the references")
        else:
            self._stats = Stats.read(file)
            self._source.warnings += file.warnings
        self._counted = self._counting()
        self._names = called(self._stats.perturbations)
        file = self._source.member(f"{self._folder}{_STATE}")
        states = elements(file, ("request_states",), State)
        for (key, _), asked in groupby(states, key=lambda state: (state.key, state.seed)):
            self._add(key, list(asked))
        self._source.warnings += file.warnings
        if not self._stats.has_logprobs():
            self.remarks.append(
                f"{self._place}: every log-probability is 0, as HELM writes it for models that give none; so the "
                "confidences, which are max_prob, say nothing"
            )
        if self._unscored:
            self.remarks.append(f"{self._place}: {self._unscored:,} instances are without scores in {_STATS}")
        means = self._file(_MEANS)
        if means is not None:
            trials = max(len(self._trials), 1)
            counts = {context: count / trials for context, count in self._instances.items()}
            self._means = list(declared(means, self._stats, counts))
            self._source.warnings += means.warnings

    @property
    def _place(self) -> str:
        return printable(f"{self._source.name}/{self._folder}".rstrip("/"))

    def _counting(self) -> tuple[str | None, ...]:
        """The metrics that count."""
        names = self.metrics
        asked = tuple(name for name in names if name in self._source.scorers)
        if asked:
            return asked
        first = next((name for name in _KIN if name in names), None)
        return (first or next((name for name in names if self._stats.judges(name)), None),)

    def _add(self, key: Key, states: Sequence[State]) -> None:
        """Add the rows of an instance: one for each metric that counts."""
        first = states[0]
        instance, stats = first.instance, self._stats
        self._rows += 1
        self._instances[instance.split, key.perturbation] += first.seed is None
        self._trials.add(key.trial)
        is_scored = key in stats
        self._scored += is_scored and first.seed is None
        self._unscored += not is_scored and len(stats) > 0
        if self._created is None and first.result is not None:
            self._created = first.result.request_datetime
        scores = {name: value for name in self.metrics if (value := stats.value(key, name)) is not None}
        log, share = stats.value(key, "logprob"), stats.value(key, "max_prob")
        if self._spec.adapter_spec.method == _MODELLING and log is not None:
            scores["logprob"] = log
        shared: dict[str, Any] = {
            "model": self._spec.adapter_spec.model,
            "item": instance.id,
            **self._repeat(key, first),
            **({} if key.perturbation == ORIGINAL else {"perturbation": self._called(instance, key)}),
            "confidence": None if share is None or not 0 <= share <= 1 + 1e-9 else min(share, 1.0),
            "latency_ms": self._latency(key, states),
            "input_tokens": _whole(stats.value(key, "num_prompt_tokens")),
            "output_tokens": _whole(stats.value(key, "num_output_tokens")),
            "group": _stated(split=instance.split, sub_split=instance.sub_split),
            **({"score": scores} if scores else {}),
            **({} if log is None else {"signal": {"logprob": log}}),
        }
        for metric in self._counted:
            answer = self._answer(key, states, metric)
            mark = None if metric is None else scores.get(metric)
            if metric == "exact_match" and mark not in (None, 0, 1):  # several choices were equally likely
                mark = float(answer.prediction == answer.target)
            task = self.task if len(self._counted) == 1 else f"{self.task}/{metric}"
            self._samples.add(
                {
                    **shared,
                    "task": task,
                    "target": answer.target,
                    "prediction": answer.prediction,
                    "outcome": answer.outcome,
                    **({"mark": mark if mark in (0, 1) else None} if len(stats) else {}),
                }
            )

    def _repeat(self, key: Key, state: State) -> dict[str, str | int]:
        """Which trial a row is of: that of the examples in the prompt, and of the same prompt."""
        if self._spec.adapter_spec.num_trials > 1:
            return {"repeat": f"{key.trial}/{state.seed or 0}"}
        return {"repeat": key.trial} if self._spec.adapter_spec.num_train_trials > 1 or key.trial else {}

    def _called(self, instance: Instance, key: Key) -> str:
        return self._names.get(key.perturbation) or full_name(instance.perturbation or {}, ())

    def _latency(self, key: Key, states: Sequence[State]) -> float | None:
        seconds = self._stats.value(key, "inference_runtime")
        if seconds is None:
            times = [state.result.request_time for state in states if state.result is not None]
            seconds = sum(time or 0.0 for time in times) if any(time is not None for time in times) else None
        return None if seconds is None or seconds < 0 else 1000 * seconds

    # -- answers -------------------------------------------------------------------------------------------------------

    def _answer(self, key: Key, states: Sequence[State], metric: str | None) -> _Answer:
        first = states[0]
        references = first.instance.references
        right = [place for place, reference in enumerate(references) if _CORRECT in reference.tags]
        if any(state.result is not None and not state.result.success for state in states):
            failed = self._samples.counted("failed", "the request did not succeed")
            return _Answer(self._target(first, references, right), None, failed)
        if first.reference_index is not None:
            return self._likeliest(key, references, right)
        if self._spec.adapter_spec.method == _MODELLING:
            return self._modelled(key)
        target = self._target(first, references, right)
        completion = first.completion
        answer = completion
        if first.output_mapping is not None:
            answer = completion if completion in first.output_mapping else None
        mark = None if metric is None else self._stats.value(key, metric)
        outcome = self._samples.outcome(answer=answer, completion=completion, target=target, right=mark == 1)
        return _Answer(target, answer or completion if outcome == "answered" else None, outcome)

    def _target(self, state: State, references: Sequence[Reference], right: Sequence[int]) -> str | None:
        """The first right reference: its letter where the choices have letters, its place where each was a request."""
        if not right:
            return None
        if state.reference_index is not None:
            return str(right[0])
        text = references[right[0]].text
        if state.output_mapping is None:
            return text
        return next((letter for letter, choice in state.output_mapping.items() if choice == text), None)

    def _likeliest(self, key: Key, references: Sequence[Reference], right: Sequence[int]) -> _Answer:
        """Which of the references, each in a request of its own, was the likeliest."""
        target = str(right[0]) if right else None
        place = _whole(self._stats.value(key, "predicted_index"))
        if place is not None and 0 <= place < len(references):
            return _Answer(target, target if place in right else str(place), "answered")
        if target is not None and self._stats.value(key, "exact_match") == 1:
            return _Answer(target, target, "answered")
        if self._stats.value(key, "exact_match") is None:
            return _Answer(target, None, self._samples.counted("failed", "it has no scores"))
        return _Answer(target, _ANOTHER, "answered")

    def _modelled(self, key: Key) -> _Answer:
        """A text whose likelihood was taken: the reply is the log-likelihood."""
        log = self._stats.value(key, "logprob")
        if log is None:
            return _Answer(None, None, self._samples.counted("failed", "it has no scores"))
        return _Answer(None, repr(log), "answered")

    # -- the run as a whole --------------------------------------------------------------------------------------------

    def declared(self, before: str) -> Iterator[Declared]:
        """The means that the run states, with the name of the run before each."""
        for each in self._means:
            yield Declared(name=f"{before}{each.name}", stated=each.stated, recomputed=each.recomputed)

    def excerpt(self) -> str:
        """Of how much the rows are a part, where the run says that there are more."""
        rows, adapter = self._rows, self._spec.adapter_spec
        counts = [each.stated for each in self._means if each.name.partition(" ")[0] == "num_instances"]
        trials = max(adapter.num_train_trials, len(self._trials)) * max(adapter.num_trials, 1)
        stated = max(round(sum(counts) * trials), len(self._stats) - self._scored + rows)
        return f"{rows:,} of {stated:,} instances of {printable(self.task)} that were run" if rows < stated else ""

    def facts(self) -> dict[str, str]:
        """What is known of the run."""
        adapter = self._spec.adapter_spec
        created = None
        if self._created is not None and 0 < self._created < 2**40:
            created = datetime.fromtimestamp(self._created, UTC).isoformat(timespec="seconds")
        stated = {
            "tool": "helm",
            "run_id": self._spec.name,
            "task": self.task,
            "metric": ", ".join(name for name in self._counted if name is not None) or None,
            "created": created,
            **{name: getattr(adapter, name) for name in Adapter.__struct_fields__},
        }
        return {name: str(value) for name, value in stated.items() if value not in (None, "")}


def _stated(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and value.is_integer() and value >= 0 else None
