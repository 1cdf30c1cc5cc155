"""A rehearsal: a spec's metrics and rules on invented answers, so that what they lack is said before anything is paid.

The answers have every column that real ones may have, and are all right. What is said of them is thrown away.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.errors import InputError, SteelyardError, UsageError
from steelyard.records.admitting import admitted
from steelyard.records.table import Records
from steelyard.runner.backends import backends
from steelyard.runner.comparing import compared_models
from steelyard.runner.plan import Place, Plan
from steelyard.runner.recorded import columns_of, facts_of, table_of
from steelyard.runner.samples import combined
from steelyard.runner.tasks import answers_are
from steelyard.study.primary import questions

_MOST = 2_000  # items
_FACTS = {"wall_seconds": 1.0, "kwh": 1.0, "co2_kg": 1.0}
_SIGNALS = ("token_msp", "token_pe", "token_energy", "label_confidence", "label_outside")


def rehearse(plan: Plan) -> None:
    """Refuse metrics and rules that cannot be had of this plan's answers."""
    from steelyard.decide.decision import Decision
    from steelyard.study.evaluation import evaluate

    spec, records = plan.spec, _invented(plan)
    _check_energy(plan)
    try:
        if spec.metrics:
            evaluate(records, spec.metrics, resamples=100)
    except (UsageError, InputError):
        for number, name in enumerate(spec.metrics):  # which of them it was
            try:
                evaluate(records, [name], resamples=100)
            except (UsageError, InputError) as problem:
                raise plan.file.problem(("metrics", number), _reason(problem)) from None
        raise
    try:
        questions(spec.primary)  # with one model they must be metrics, too
        for new in [model.name for model in spec.models][1:2]:
            compared_models(spec, records, spec.models[0].name, new, resamples=0)
    except (UsageError, InputError) as problem:
        raise plan.file.problem(("primary",) if spec.primary else ("metrics",), _reason(problem)) from None
    if spec.rules:
        try:
            _: Decision = _decision(spec.rules, records)
        except (UsageError, InputError) as problem:
            raise plan.file.problem(("gate",), _reason(problem)) from None


def _check_energy(plan: Plan) -> None:
    """Refuse metrics of energy where none is measured: they would have no value in the end."""
    from steelyard.metrics.definition import metric_of

    if plan.spec.sustainability is not None and plan.spec.sustainability.codecarbon:
        return
    for number, name in enumerate(plan.spec.metrics):
        try:
            reads = metric_of(name).reads
        except UsageError:  # which is said with the others
            continue
        if {"facts.kwh", "facts.co2_kg"} & {*reads}:
            raise plan.file.problem(
                ("metrics", number), "energy is measured with sustainability: {codecarbon: true, country_iso: DEU}"
            )


def _decision(rules: list[str], records: Records) -> Any:
    from steelyard.decide.gate import Gate
    from steelyard.decide.subject import NumberOptions, of_records

    gate = Gate.parse(rules)
    for rule in gate.rules:
        if rule.delta:
            raise UsageError(f"'{rule}' compares with a baseline; a run-spec has none. Gate the run once it is kept")
    return gate.check(of_records(gate, records, None, NumberOptions(resamples=100)))


def _reason(problem: SteelyardError) -> str:
    return problem.problem if isinstance(problem, InputError) else str(problem)


def _invented(plan: Plan) -> Records:
    """Answers to some items, from every model by every strategy under every perturbation."""
    spec = plan.spec
    places = [
        Place(number=0, model=model, strategy=strategy, item=item, repeat=repeat, perturbation=perturbation)
        for model in spec.models
        for strategy, perturbation, item in plan.asked(_MOST)
        for repeat in range(1, min(spec.repeat, 2) + 1)
    ]
    columns = columns_of(table_of(plan, ((place, _answer(plan, place)) for place in places)))
    facts = _FACTS if spec.sustainability else {"wall_seconds": 1.0}
    return admitted(columns, cluster=None, task=facts_of(plan, facts), sources=())


def _answer(plan: Plan, place: Place) -> Mapping[str, Any]:
    row = _row(plan, place)
    return row if place.strategy.samples == 1 else combined([row] * place.strategy.samples)


def _row(plan: Plan, place: Place) -> dict[str, Any]:
    labels = [f"label.{label}" for label in plan.task.labels or ()]
    stated = dict.fromkeys(getattr(backends[place.model.backend], "signals", ()), 0.5)
    verbalized = {"verbalized": 3} if place.strategy.verbalized else {"confidence": 0.5}
    reason = {"rationale": place.item.target} if answers_are(plan.task) == "text" else {}
    return {
        "reply": {"latency_ms": 1.0, "input_tokens": 1, "output_tokens": 1},
        "parsed": {
            "prediction": place.item.target,
            "outcome": "answered",
            "reasoning_chars": 0,
            **verbalized,
            **reason,
        },
        "cost": None if place.model.price is None else 0.0,
        "signals": {**(dict.fromkeys((*_SIGNALS, *labels), 0.5) if plan.spec.inference.logprobs else {}), **stated},
    }
