"""`steelyard shift history`: the trainings."""

from __future__ import annotations

from steelyard.cli.command import Shown, command
from steelyard.cli.options.shift import OfWorkflow
from steelyard.cli.options.store import Place


@command()
def history(*, workflow: OfWorkflow = None, place: Place) -> Shown:
    """List the trainings, the newest first, and which of them is best."""
    from steelyard.report.retrieval import history_report
    from steelyard.retrieval.shifts.kept import best_training, history_document, trainings

    stored, problems = trainings(place.scope, workflow, place.view)
    best, _ = best_training(stored)
    name = None if best is None else best.id
    return Shown(document=history_document(stored, name, problems), report=history_report(stored, problems, name))
