"""What a run-spec would ask, for people: counts, and the messages as they are sent."""

from __future__ import annotations

from steelyard.errors import counted
from steelyard.report.document import Cell, Count, Document, Heading, Note, Table, Value, Verbatim
from steelyard.runner.backends import Message
from steelyard.runner.plan import Plan, expenses
from steelyard.runner.recorded import remarks_on


def plan_report(plan: Plan) -> Document:
    """What would be asked, and what that would take, model by model."""
    rows = (
        ("models", Count(len(plan.spec.models))),
        ("strategies", Count(len(plan.strategies))),
        ("perturbations", Count(len(plan.changed))),
        ("items", Count(len(plan.items))),
        ("repeats", Count(plan.spec.repeat)),
        ("requests", Count(plan.count)),
    )
    taken = tuple(
        (
            name,
            Count(each.requests),
            Count(each.read),
            _most(each.written),
            "" if each.cost is None else Value(each.cost),
        )
        for name, each in expenses(plan).items()
    )
    columns = ("model", "requests", "tokens read, about", "written, at most", "cost, at most")
    document: Document = [Note(f"{plan.spec.id}: {plan.task.name}, {plan.task.about}"), Table(("what", "count"), rows)]
    document.append(Table(columns, taken).trimmed())
    document += [Note(f"left out of the data: {counted(count, 'row')}, {why}") for why, count in plan.left_out.items()]
    document += [Note(f"warning: {warning}") for warning in (*plan.warnings, *remarks_on(plan))]
    return document


def _most(written: int | None) -> Cell:
    return "" if written is None else Count(written)


def prompts_report(plan: Plan, shown: int) -> Document:
    """The exact messages about the first items, by strategy and perturbation."""
    document: Document = []
    for strategy, perturbation, item in plan.asked(shown):
        how = strategy.name if perturbation is None else f"{strategy.name}, {perturbation}"
        document.append(Heading(f"{how}, item {item.id}"))
        document += [message_part(message) for message in plan.messages(strategy, item)]
    return document


def message_part(message: Message) -> Verbatim:
    """A message as it is, after the role of whoever says it."""
    return Verbatim(f"[{message.role}]\n{message.content}")
