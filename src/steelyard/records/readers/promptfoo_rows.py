"""What is read of the output of promptfoo, under promptfoo's own names; everything else in it is passed over."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

ERROR = 2  # as a failure_reason; 1 says that an assertion did not hold


class _Part(msgspec.Struct, rename="camel"):
    pass


class Provider(_Part):
    id: str | None = None
    label: str | None = None


class Prompt(_Part):
    label: str | None = None
    display: str | None = None


class Tokens(_Part):
    prompt: float | None = None
    completion: float | None = None


class Response(_Part):
    output: Any = None
    cached: bool | None = None
    cost: float | None = None
    token_usage: Tokens | None = None
    is_refusal: bool | None = None


class Assertion(_Part):
    type: str | None = None
    value: Any = None
    metric: str | None = None
    parts: list[Assertion] | None = msgspec.field(default=None, name="assert")

    def all(self) -> Iterator[Assertion]:
        """The assertion and those in it."""
        yield self
        for part in self.parts or ():
            yield from part.all()


class AssertionSet(_Part):
    metric: str | None = None


class Details(_Part):
    rendered_assertion_value: Any = None
    assertion_set: AssertionSet | None = None


class Component(_Part):
    passed: bool | None = msgspec.field(default=None, name="pass")
    assertion: Assertion | None = None
    metadata: Details | None = None

    @property
    def metric(self) -> str | None:
        """The name of its metric; a set of assertions has it elsewhere."""
        if self.metadata is not None and self.metadata.assertion_set is not None:
            return self.metadata.assertion_set.metric
        return self.assertion.metric if self.assertion is not None else None


class Grading(_Part):
    reason: Any = None
    component_results: list[Component | None] | None = None


class TestCase(_Part):
    description: str | None = None
    vars: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    assertions: list[Assertion] | None = msgspec.field(default=None, name="assert")


class Row(_Part):
    success: bool | None = None
    score: float | None = None
    prompt_idx: int | None = None
    prompt_id: str | None = None
    prompt: Prompt | None = None
    provider: str | Provider | None = None
    vars: dict[str, Any] | None = None
    test_case: TestCase | None = None
    metadata: dict[str, Any] | None = None
    response: Response | None = None
    grading_result: Grading | None = None
    named_scores: dict[str, float | None] | None = None
    failure_reason: int | str | None = None
    latency_ms: float | None = None
    cost: float | None = None
    token_usage: Tokens | None = None

    def components(self) -> list[Component]:
        grading = self.grading_result
        return [each for each in (grading.component_results or () if grading else ()) if each is not None]

    def assertions(self) -> list[Assertion]:
        """The assertions of the test, those in sets too."""
        stated = self.test_case.assertions or () if self.test_case else ()
        return [part for each in stated for part in each.all()]

    @property
    def failed(self) -> bool:
        """True if there was an error; an assertion that did not hold is none, though it is written in `error` too."""
        if self.failure_reason is None:
            return not self.success and (self.response is None or self.response.output is None)
        return self.failure_reason == ERROR

    @property
    def judged(self) -> bool:
        """False if the test has no assertions."""
        known = self.test_case is not None and self.test_case.assertions is not None
        if known or self.components():
            return bool(self.assertions() or self.components())
        return self.grading_result is not None and self.grading_result.reason != "No assertions"


class Metrics(_Part):
    score: float | None = None
    test_pass_count: int | None = None
    test_fail_count: int | None = None
    test_error_count: int | None = None


class Column(_Part):
    metrics: Metrics | None = None


class Stats(_Part):
    successes: int | None = None
    failures: int | None = None
    errors: int | None = None


class Results(_Part):
    timestamp: str | None = None
    prompts: list[Column] | None = None
    stats: Stats | None = None


class Config(_Part):
    description: str | None = None


class About(_Part):
    promptfoo_version: str | None = None
    evaluation_created_at: str | None = None


class Document(_Part):
    """What is around the rows, which are at `results.results`, and were at `results`."""

    eval_id: str | None = None
    results: Results | list[Any] | None = None
    config: Config | None = None
    metadata: About | None = None

    def summary(self) -> Results:
        return self.results if isinstance(self.results, Results) else Results()
