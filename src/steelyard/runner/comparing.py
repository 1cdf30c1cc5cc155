"""Two models of a run compared, as the run does it and as its rehearsal does: by which metrics, and what decides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from steelyard.metrics.definition import Metric, MetricLike, known_metric
from steelyard.naming import Expr, parse
from steelyard.records.labels import value_name
from steelyard.records.schema import CELL
from steelyard.records.table import Records
from steelyard.runner.spec import RunSpec

if TYPE_CHECKING:
    from steelyard.study.results import Comparison


def compared_models(spec: RunSpec, records: Records, base: str, new: str, **how: Any) -> Comparison | None:
    """The comparison of two models, None where no metric of the run can be compared."""
    from steelyard.study.asking import asked_for
    from steelyard.study.comparison import compare
    from steelyard.study.defaults import choose, leading, listed_metrics

    before, after = (records.of_run("model", name) for name in (base, new))
    asked = asked_for(spec.metrics)
    chosen = [] if asked else listed_metrics(choose(before, comparable=True))
    metrics = [*chosen, *(m for m in asked if not (isinstance(m, Metric) and m.no_delta))]
    if not metrics:
        return None
    first = leading(chosen) if chosen else metrics[0]
    deciding = _deciding(spec, first, (before, after))
    return compare(before, after, metrics, primary=deciding, align="intersection", versus=("model",), **how)


def _deciding(spec: RunSpec, first: MetricLike | Expr, runs: Sequence[Records]) -> list[MetricLike | Expr]:
    """What decides between two models: what the spec says, else its first metric, and cells that a rule is about.

    A cell that a run which was stopped has not come to is left out.
    """
    from dataclasses import replace

    from steelyard.decide.gate import Gate

    rules = Gate.parse(spec.rules).rules if spec.rules else ()
    ruled = [rule.metric for rule in rules if {column for column, _ in rule.metric.slice} - {"model"}]
    ruled = [expr for expr in ruled if (known := known_metric(str(replace(expr, slice=())))) and not known.no_delta]
    named = [
        replace(expr, slice=tuple((column, value) for column, value in expr.slice if column != "model"))
        for expr in (*map(parse, spec.primary), *ruled)
    ]
    cells = [column for column in CELL if column != "model"]
    values = [{c: {*map(value_name, run.labels(c).values)} for c in cells if c in run} for run in runs]

    def is_there(column: str, value: str) -> bool:
        own = [each.get(column, set()) for each in values]
        return all(value in there for there in own) and any(len(there) > 1 for there in own)

    here = [each for each in named if all(is_there(*part) for part in each.slice)]
    return [*here] if spec.primary and here else [first, *here]
