"""What a run, and a matrix of runs, came to, as data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from steelyard.decide.wire import acceptance_document
from steelyard.ground.json import head, plain
from steelyard.runner.doctor import Diagnosis
from steelyard.runner.matrix import Result
from steelyard.runner.plan import Plan, estimated_tokens, expenses
from steelyard.runner.run import Run
from steelyard.runner.strategies import Strategy
from steelyard.runner.tally import Tally
from steelyard.runner.tasks import Item, Task, answers_are
from steelyard.runs.wire import standing_document
from steelyard.study.primary import family_text
from steelyard.study.wire import comparison_document, evaluation_document


def matrix_document(result: Result) -> dict[str, Any]:
    """The variants, the runs that they left in order, and the decision if one was asked for."""
    choice = result.choice
    return plain(
        {
            "folder": str(result.folder),
            "variants": [{**asdict(v), "log": v.log.name if v.log else None} for v in result.variants],
            "metric": result.metric,
            "runs": [standing_document(row) for row in result.rows],
            "decision": None
            if choice is None
            else {"action": choice.action, "run_id": choice.candidate.run_id, "reason": choice.reason},
            "problems": list(result.problems),
        }
    )


def run_result(run: Run) -> dict[str, Any]:
    """What a run-spec came to: what was asked, the evaluation, comparisons, the gate, and where everything is."""
    family = family_text([delta for comparison in run.comparisons.values() for delta in comparison])
    return plain(
        {
            **head("run-result"),
            "run_id": run.run_id,
            "spec": run.spec.id,
            "spec_hash": run.spec.hash,
            "reparsed_from": run.reparsed_from,
            "complete": run.is_complete,
            "problems": list(run.problems),
            "seconds": run.seconds,
            "models": {name: tally_document(tally) for name, tally in run.tallies.items()},
            "evaluation": evaluation_document(run.evaluation),
            "family": family,
            "comparisons": [
                {"base": base, "new": new, "comparison": {**comparison_document(comparison), "family": family}}
                for (base, new), comparison in run.comparisons.items()
            ],
            "gate": None if run.judgement is None else acceptance_document(run.judgement.decision, run.judgement.about),
            "folder": None if run.folder is None else str(run.folder),
            "journal": str(run.journal),
            "cache": str(run.cache),
        }
    )


def tally_document(tally: Tally) -> dict[str, Any]:
    """The counts of one model."""
    counters = {name: dict(getattr(tally, name)) for name in ("remarks", "failures", "declined")}
    return {**asdict(tally), **counters}


def plan_document(plan: Plan, shown: int) -> dict[str, Any]:
    """What would be asked: counts, estimates of tokens and cost, and the messages about the first items, if any."""
    return plain(
        {
            **head("run-plan"),
            "spec": plan.spec.id,
            "spec_hash": plan.spec.hash,
            "task": plan.task.name,
            "requests": plan.count,
            "models": [model.name for model in plan.spec.models],
            "strategies": [strategy.name for strategy in plan.strategies],
            "perturbations": list(plan.changed),
            "items": len(plan.items),
            "examples": len(plan.held_out.items),
            "repeat": plan.spec.repeat,
            "left_out": dict(plan.left_out),
            "unchanged": plan.unchanged,
            "input_tokens_estimated": estimated_tokens(plan),
            "expenses": {name: asdict(expense) for name, expense in expenses(plan).items()},
            "warnings": list(plan.warnings),
            "prompts": prompts_document(plan, shown),
        }
    )


def prompts_document(plan: Plan, shown: int) -> list[dict[str, Any]]:
    """The exact messages about the first items, by strategy and perturbation."""
    return [
        {
            "strategy": strategy.name,
            "perturbation": perturbation,
            "item": item.id,
            "messages": [asdict(message) for message in plan.messages(strategy, item)],
        }
        for strategy, perturbation, item in plan.asked(shown)
    ]


def diagnosis_document(found: Sequence[Diagnosis]) -> dict[str, Any]:
    """Everything that was looked at before a run."""
    return plain({**head("run-diagnosis"), "findings": [asdict(each) for each in found]})


def tasks_document(tasks: Sequence[Task]) -> list[dict[str, Any]]:
    """What can be run."""
    return plain([_task(task) for task in tasks])


def task_document(task: Task, item: Item, strategy: Strategy) -> dict[str, Any]:
    """One task, with the messages about an item."""
    messages = [asdict(message) for message in strategy.messages(task, item)]
    return plain({**_task(task), "strategy": strategy.name, "item": item.id, "messages": messages})


def _task(task: Task) -> dict[str, Any]:
    return {
        "name": task.name,
        "about": task.about,
        "answers": answers_are(task),
        "labels": None if task.labels is None else list(task.labels),
        "range": None if task.range is None else list(task.range),
        "may_decline": task.may_decline,
    }
