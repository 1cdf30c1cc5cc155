"""Which evaluation is exported: that of an evaluation.json, or of a run that was kept."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from steelyard.errors import UsageError
from steelyard.exports.contract import Subject
from steelyard.ground.files import written_at
from steelyard.ground.json import read_strict
from steelyard.runs.layout import View
from steelyard.runs.opening import check_walls, is_run_folder, open_run
from steelyard.runs.saved import EVALUATION, SavedRun
from steelyard.study.results import Evaluation
from steelyard.study.wire import document_of


def subject_of(source: str | os.PathLike[str], view: View) -> Subject:
    """The evaluation in a file, or of a kept run by its id or folder."""
    name = os.fspath(source)
    check_walls(Path(name), view)
    if os.path.isfile(name) and not is_run_folder(name):
        return _of_file(name)
    return _of_run(open_run(name, view, "source"))


def _of_file(name: str) -> Subject:
    document, raw = read_strict(name)
    evaluation = document_of(document, name)
    if not isinstance(evaluation, Evaluation):
        raise UsageError("a comparison has no form in other tools; export the evaluation of each run")
    return Subject(
        evaluation=evaluation,
        text=raw.decode("utf-8-sig"),
        name=name,
        version=document["tool"]["version"],
        created=written_at(name),
    )


def _of_run(saved: SavedRun) -> Subject:
    run, subject = saved.run, _of_file(str(saved.file(EVALUATION)))
    return replace(
        subject,
        name=run.run_id,
        created=_time(run.completed_at or run.started_at) or subject.created,
        run_id=run.run_id,
        labels=run.labels,
    )


def _time(text: str) -> datetime | None:
    try:
        stated = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (stated if stated.tzinfo else stated.replace(tzinfo=UTC)).astimezone(UTC)
