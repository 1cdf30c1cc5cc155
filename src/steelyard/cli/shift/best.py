"""`steelyard shift best`: the training with the highest held-out score."""

from __future__ import annotations

from steelyard.cli.command import Shown, command
from steelyard.cli.options.shift import OfWorkflow
from steelyard.cli.options.store import Place


@command()
def best(*, workflow: OfWorkflow = None, place: Place) -> Shown:
    """Name the training with the highest held-out score; cancelled ones and those that do not help are skipped.

    Exit code 1 where none can be chosen.
    """
    from steelyard.report.retrieval import best_training_report
    from steelyard.retrieval.shifts.kept import best_document, best_training, trainings

    stored, problems = trainings(place.scope, workflow, place.view)
    training, rejected = best_training(stored)
    return Shown(
        document=best_document(training, rejected, problems),
        report=best_training_report(stored, training, rejected, problems),
        exit_code=1 if training is None else 0,
    )
