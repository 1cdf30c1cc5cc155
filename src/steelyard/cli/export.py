"""`steelyard export`: the numbers of an evaluation in the form of another tool."""

from __future__ import annotations

from typing import Annotated

import typer

from steelyard.cli.command import READS, Shown, as_options, command, say
from steelyard.cli.options import records as of
from steelyard.cli.options import store
from steelyard.cli.outputs import check_outputs
from steelyard.errors import counted


@command()
def export(
    *,
    source: Annotated[str, typer.Argument(help="An evaluation.json, a run's id, or a run folder."), READS],
    target: Annotated[str, typer.Argument(help="A file, a folder, or the address of a server.")],
    to: Annotated[str, typer.Option("--to", help="every-eval-ever (a folder or a .json file) or mlflow.")],
    about: Annotated[
        list[str] | None,
        typer.Option("--about", help="What the form asks for and the evaluation does not say: model=m1. Repeatable."),
    ] = None,
    place: store.Place,
) -> Shown:
    """Write the numbers of an evaluation, with their intervals, as another tool reads them.

    every-eval-ever: one JSON file per model. mlflow: a run, in a folder or on a server; needs mlflow-skinny. Rows go to
    other tools with `steelyard convert`.
    """
    from steelyard.exports import Place, exporters, subject_of
    from steelyard.report.document import Note

    form, goal = exporters[to], Place(target)
    subject = subject_of(source, place.view)
    if not goal.is_address:
        check_outputs({"target": [goal.path]}, [source])
    done = form(subject, goal, of.pairs(about, "about"))
    for remark in done.said:
        say(as_options(remark))
    files = [str(path) for path in done.files]
    document = {"to": form.name, "target": goal.shown, "numbers": done.numbers, "files": files, **done.about}
    known = ", ".join(f"{name} {value}" for name, value in done.about.items())
    what = f"exported {counted(done.numbers, 'number')} to {goal.shown} as {form.name}"
    return Shown(
        document=document,
        report=[Note(f"{what}: {known}" if known else what)],
        files={"target": done.files},
    )
