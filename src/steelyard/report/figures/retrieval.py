"""The figure of a training: what its shift gains on held-out queries."""

from __future__ import annotations

from steelyard.errors import counted
from steelyard.report.figures.figure import Figure, Level, Mark, Panel, Points, Whiskers
from steelyard.retrieval.shifts.kept import ShiftTrainingResult


def held_out_figure(result: ShiftTrainingResult) -> Figure | None:
    """The gain of a learned shift, fold by fold and together with its interval; None where none was held out."""
    held_out = result.held_out
    if held_out is None:
        return None
    places = range(1, len(held_out.folds) + 1)
    marks: list[Mark] = [
        Level("reference", 0),
        Points(series="fold", x=places, y=[fold.gain for fold in held_out.folds], label="one fold"),
    ]
    score, together = held_out.score, len(held_out.folds) + 1
    if score is not None:
        if held_out.interval is not None:
            low, high = held_out.interval
            label = f"{100 * held_out.level:g}% interval"
            marks.append(Whiskers(series="whole", x=(together,), low=(low,), high=(high,), label=label))
        marks.append(Points(series="whole", x=(together,), y=(score,), label="all folds"))
    status = "helps" if result.usable else f"not chosen: {result.why_not}"
    panel = Panel(
        marks=tuple(marks),
        title=f"{counted(held_out.queries, 'query')}; {status}",
        x_label="fold: the shift was learned without its queries",
        y_label="gain in 0.7 · MAP@1 + 0.3 · nDCG@3",
        ticks=(*((place, str(place)) for place in places), (together, "all")),
    )
    return Figure(
        name="held-out-gain",
        title=f"Gain on held-out queries: {result.training_id or result.workflow_name}",
        text="gain on held-out queries, fold by fold",
        panels=((panel,),),
    )
