"""What is read of Every Eval Ever: the aggregate of a run and its samples, under their own names."""

from __future__ import annotations

import re
from typing import Any

import msgspec

_MEANS = frozenset(
    ("acc", "acc_norm", "accuracy", "em", "exact_match", "mean", "pass_1", "pass_at_1", "pass_rate", "win_rate")
)
_WHOLE_RUNS = frozenset(("helm",))  # libraries whose every metric is a mean over samples


# -- samples -----------------------------------------------------------------------------------------------------------


class Given(msgspec.Struct):
    reference: list[str] | str | None = None


class Output(msgspec.Struct):
    raw: list[str | None] | str | None = None


class Message(msgspec.Struct):
    role: str | None = None
    content: Any = None


class Attribution(msgspec.Struct):
    extracted_value: str | None = None
    is_terminal: bool | None = None


class Judgement(msgspec.Struct):
    score: float | None = None
    is_correct: bool | None = None


class Tokens(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None


class Performance(msgspec.Struct):
    latency_ms: float | None = None
    time_to_first_token_ms: float | None = None
    generation_time_ms: float | None = None


class Sample(msgspec.Struct):
    """One line of a samples file: a sample under one result of the aggregate."""

    evaluation_id: str | None = None
    model_id: str | None = None
    evaluation_name: str | None = None
    evaluation_result_id: str | None = None
    sample_id: str | int | None = None
    sample_hash: str | None = None
    input: Given | None = None
    output: Output | None = None
    messages: list[Message] | None = None
    answer_attribution: list[Attribution] | None = None
    evaluation: Judgement | None = None
    token_usage: Tokens | None = None
    performance: Performance | None = None
    error: str | None = None
    metadata: dict[str, Any] | None = None

    def references(self) -> list[str]:
        """The different right answers."""
        stated = self.input.reference if self.input is not None else None
        return [stated] if isinstance(stated, str) else list(dict.fromkeys(stated or ()))

    def reply(self) -> str | None:
        """What the model wrote: its output, or its last message."""
        raw = self.output.raw if self.output is not None else None
        if raw is not None:
            return raw if isinstance(raw, str) else next((text for text in raw if text), None)
        written = (each.content for each in reversed(self.messages or ()) if each.role == "assistant")
        return next((text for text in written if isinstance(text, str)), None)

    def answer(self) -> str | None:
        """The answer that was found in the reply; the reply itself where nobody looked for one."""
        found = [each for each in self.answer_attribution or () if each.is_terminal is not False]
        return found[-1].extracted_value if found else self.reply()


# -- the aggregate -----------------------------------------------------------------------------------------------------


class Library(msgspec.Struct):
    name: str | None = None
    version: str | None = None


class Model(msgspec.Struct):
    id: str | None = None


class Metric(msgspec.Struct):
    metric_id: str | None = None
    metric_name: str | None = None
    metric_kind: str | None = None
    metric_unit: str | None = None
    lower_is_better: bool | None = None

    def is_mean(self) -> bool:
        """True if the metric is the mean of the samples' scores, by its name."""
        names = (self.metric_id, self.metric_name, self.metric_kind)
        plain = [re.sub(r"[^a-z0-9]+", "_", name.casefold()) for name in names if name]
        return any(name in _MEANS or name.endswith("exact_match") for name in plain)


class Uncertainty(msgspec.Struct):
    num_samples: int | None = None


class Score(msgspec.Struct):
    score: float | None = None
    uncertainty: Uncertainty | None = None


class Data(msgspec.Struct):
    samples_number: int | None = None


class Arguments(msgspec.Struct):
    temperature: float | None = None


class Generation(msgspec.Struct):
    generation_args: Arguments | None = None


class Result(msgspec.Struct):
    """A metric of the run."""

    evaluation_result_id: str | None = None
    evaluation_name: str | None = None
    metric_config: Metric = msgspec.field(default_factory=Metric)
    score_details: Score = msgspec.field(default_factory=Score)
    source_data: Data = msgspec.field(default_factory=Data)
    generation_config: Generation | None = None

    @property
    def named(self) -> str:
        """What the metric is called in messages."""
        metric = self.metric_config
        name = self.evaluation_result_id or metric.metric_name or metric.metric_id or "score"
        return f"{self.evaluation_name}: {name}" if self.evaluation_name else name

    def recomputed(self, mean: float, library: str | None) -> float | None:
        """The same of the mean of the samples' scores; None where the metric may be something else."""
        if not (self.metric_config.is_mean() or library in _WHOLE_RUNS):
            return None
        return mean * 100 if self.metric_config.metric_unit in ("percent", "percentage", "%") else mean


class Detailed(msgspec.Struct):
    file_path: str | None = None
    hash_algorithm: str | None = None
    checksum: str | None = None
    total_rows: int | None = None


class Aggregate(msgspec.Struct):
    """The document of a run."""

    schema_version: str | None = None
    evaluation_id: str | None = None
    evaluation_timestamp: str | None = None
    eval_library: Library = msgspec.field(default_factory=Library)
    model_info: Model = msgspec.field(default_factory=Model)
    evaluation_results: list[Result] = []
    detailed_evaluation_results: Detailed | None = None

    def facts(self) -> dict[str, str]:
        """What names the run."""
        arguments = [
            each.generation_config.generation_args for each in self.evaluation_results if each.generation_config
        ]
        warmth = {each.temperature for each in arguments if each is not None and each.temperature is not None}
        tasks = {each.evaluation_name for each in self.evaluation_results}
        stated = {
            "tool": self.eval_library.name,
            "tool_version": self.eval_library.version,
            "run_id": self.evaluation_id,
            "task": tasks.pop() if len(tasks) == 1 else None,
            "model": self.model_info.id,
            "created": self.evaluation_timestamp,
            "temperature": f"{warmth.pop():g}" if len(warmth) == 1 else None,
        }
        return {name: value for name, value in stated.items() if value}
