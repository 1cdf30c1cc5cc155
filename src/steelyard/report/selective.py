"""A Selection for people: what each variant's curve says, and how two runs differ."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.errors import counted
from steelyard.report.document import Document, Heading, MetricName, Note, Row, Table, number, title_of
from steelyard.report.figures.figure import Figure
from steelyard.report.rows import files, measured, paired
from steelyard.study.selection import HULL, Deltas, Reading, Selection
from steelyard.uncertainty.number import Delta, Number, shown_method

_MEANING = {
    "cmax": "share answered",
    "aurc_full": "area under selective risk ↓",
    "augrc_full": "area under generalized risk ↓",
    "aurc_optimal": "… if ranked perfectly",
    "augrc_optimal": "… if ranked perfectly",
    "eaurc": "what the ranking loses ↓",
    "eaugrc": "what the ranking loses ↓",
    "aurc_achievable": HULL,
    "aurc_at_c": "area up to coverage {c}, or cmax",
    "augrc_at_c": "area up to coverage {c}, or cmax",
    "ece": "gap between confidence and accuracy ↓",
    "ece_null": "… that chance alone would give",
    "nll": "log-loss of the confidence ↓",
    "brier": "squared error of the confidence ↓",
    "auroc": "right answers above wrong ones ↑",
}


_COLUMNS = ("number", "value", "95% interval", "method", "what it says")
_PLAIN = (
    "method percentile: as they come, as the documented file has them. For a decision, evaluate, compare or gate "
    "the metric itself (`aurc`, `augrc`, …), whose interval is chosen by what it is"
)


def selection_report(selection: Selection, figures: Sequence[Figure] = ()) -> Document:
    """The numbers of the artifact, with their intervals, and figures of it if any."""
    document: Document = []
    sides = ("left: ", "right: ") if selection.overlap else ("",)
    for side, sources, mode in zip(sides, selection.sources, selection.modes, strict=True):
        document.append(Note(side + files(sources) + (f", {mode}" if mode else "")))
    document.append(Note(_population(selection)))
    for name, readings in selection.readings.items():
        if name == "total_evidence" and "llm" in selection.readings:
            document.append(Note("confidence: total_evidence is llm under its older name"))
            continue
        document.append(Heading(f"confidence: {name}"))
        deltas = selection.deltas.get(name)
        document += _pair(readings, deltas, selection) if deltas else _one(readings[0], selection)
    document += [Note(_PLAIN)] if selection.settings.method == "plain" and selection.settings.resamples else []
    document += figures
    document += [Note(f"left out: {name}, which lacks {', '.join(needs)}") for name, needs in selection.lacking.items()]
    document += [Note(f"warning: {w}") for w in selection.warnings]
    return document


def _population(selection: Selection) -> str:
    people, overlap = selection.population, selection.overlap
    failed = f"{people['participants_failed']} failed"
    if overlap is not None:
        failed += f" ({overlap.failed_left} left, {overlap.failed_right} right)"
    alone = f"; in one run only: {overlap.left_only} left, {overlap.right_only} right" if overlap else ""
    return (
        f"{people['participants_included']} of {counted(people['participants_total'], 'participant')}, {failed}; "
        f"{counted(people['items_total'], 'item')}; loss {selection.loss.name}: {selection.loss.definition}{alone}"
    )


def _one(reading: Reading, selection: Selection) -> Document:
    rows: list[Row] = [
        (_named(key, selection), *measured(e.value, e.interval), _method(e), _meaning(key, selection))
        for key, e in reading.estimates.items()
    ]
    for key, e in reading.risk_at.items():
        rows.append((_risk_at(key), *measured(e.value, e.interval), _method(e), _reached(reading, key)))
    document: Document = [Table(_COLUMNS, (*rows, *_judged(reading)))]
    gap = reading.interpretation["aurc_gap_pct"]
    if gap is not None:
        where = "above" if gap >= 0 else "below"
        document.append(Note(f"AURC lies {abs(gap):.0f}% {where} that of a perfect ranking of the same answers"))
    return document + _remarks(reading.notes)


def _judged(reading: Reading) -> list[Row]:
    return [
        (MetricName(key), *measured(e.value, e.interval), _method(e), _MEANING[key])
        for key, e in reading.calibration.items()
    ]


def _method(e: Number) -> str:
    return shown_method(e.method) if e.interval is not None else ""


def _remarks(notes: list[str]) -> Document:
    said = ("undefined: the model never answers", "no interval: no resamples", "no resamples were asked for", HULL)
    return [Note(f"note: {n}") for n in notes if not any(text in n for text in said)]


def _reached(reading: Reading, key: str) -> str:
    estimate = reading.risk_at[key]
    if estimate.value is None:
        return "never reached"
    return f"risk at coverage {number(estimate.detail['achieved'])}"


def _pair(readings: tuple[Reading, ...], deltas: Deltas, selection: Selection) -> Document:
    rows = [_delta(_named(key, selection), d, _meaning(key, selection)) for key, d in deltas.areas.items()]
    up_to = f"area up to {number(deltas.common_cmax)}, which both reach"
    rows += [_delta(_common(key), d, up_to) for key, d in deltas.at_common_cmax.items()]
    for key, d in deltas.risk_at.items():
        one, two = (_reached(reading, key) for reading in readings)
        meaning = one if one == two else f"{one} left, {two} right"
        rows.append(_delta(_risk_at(key), d, meaning))
    columns = ("number", "left", "right", "delta", "95% interval", "method", "what it says")
    document: Document = [Table(columns, tuple(rows))]
    shares = [reading.estimates["cmax"].value for reading in readings]
    if shares[0] != shares[1]:
        document.append(Note("the runs answer unequal shares, and areas reward declining: compare the *_common rows"))
    for side, reading in zip(("left", "right"), readings, strict=True):
        if reading.calibration:
            document += [Note(f"{side}:"), Table(_COLUMNS, tuple(_judged(reading)))]
    return document + _remarks(deltas.notes)


def _delta(name: MetricName, d: Delta, meaning: str) -> Row:
    return name, *paired(d.base, d.new, d.delta, d.interval), _method(d), meaning


def _named(key: str, selection: Selection) -> MetricName:
    """An area by its key; one that is cut off has its coverage in the title."""
    cut = key.endswith("_at_c")
    return MetricName(key, title=title_of(f"{key}(c={selection.area_coverage:g})") if cut else "")


def _common(key: str) -> MetricName:
    area = key.removesuffix("_at_c")
    return MetricName(f"{area}_common", title=f"{area.upper()} up to Common Coverage")


def _risk_at(coverage: str) -> MetricName:
    return MetricName(f"mae_at_coverage {coverage}", title=f"{title_of('mae_at_coverage')} {coverage}")


def _meaning(key: str, selection: Selection) -> str:
    return _MEANING[key].format(c=f"{selection.area_coverage:g}")
