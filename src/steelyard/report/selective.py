"""A Selection for people: what each variant's curve says, and how two runs differ."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.comparison import Delta
from steelyard.report.document import Document, Heading, Note, Table, files, interval_text, number
from steelyard.selection import Deltas, Reading, Selection

_MEANING = {
    "cmax": "share answered",
    "aurc_full": "area under selective risk ↓",
    "augrc_full": "area under generalized risk ↓",
    "aurc_optimal": "… if ranked perfectly",
    "augrc_optimal": "… if ranked perfectly",
    "eaurc": "what the ranking loses ↓",
    "eaugrc": "what the ranking loses ↓",
    "aurc_achievable": "best working points, in sample",
    "aurc_at_c": "area up to coverage {c}",
    "augrc_at_c": "area up to coverage {c}",
}
_RIGHT = frozenset({"value", "left", "right", "delta"})


def selection_report(selection: Selection) -> Document:
    """The numbers of the artifact, with their intervals."""
    people = selection.population
    document: Document = []
    for sources, mode in zip(selection.sources, selection.modes, strict=True):
        document.append(Note(files(sources) + (f", {mode}" if mode else "")))
    document.append(
        Note(
            f"{people['participants_included']} of {people['participants_total']} participants, "
            f"{people['participants_failed']} failed; {people['items_total']} items; "
            f"loss {selection.loss.name}: {selection.loss.definition}"
        )
    )
    for name, readings in selection.readings.items():
        document.append(Heading(f"confidence: {name}"))
        deltas = selection.deltas.get(name)
        document += _pair(readings, deltas, selection) if deltas else _one(readings[0], selection)
    document += [Note(f"not there: {name} (lacks {', '.join(needs)})") for name, needs in selection.lacking.items()]
    document += [Note(f"warning: {w}") for w in selection.warnings]
    return document


def _one(reading: Reading, selection: Selection) -> Document:
    rows = [
        (key, number(e.value), interval_text(e.interval), _meaning(key, selection), e.note)
        for key, e in reading.estimates.items()
    ]
    for key, e in reading.risk_at.items():
        reached = (e.detail or {}).get("achieved")
        meaning = f"risk at coverage {number(reached)}" if e.value is not None else ""
        rows.append((f"mae_at_coverage {key}", number(e.value), interval_text(e.interval), meaning, e.note))
    return [Table(("number", "value", "95% interval", "what it says", "note"), tuple(rows), _RIGHT)]


def _pair(readings: tuple[Reading, ...], deltas: Deltas, selection: Selection) -> Document:
    rows = [_delta(key, d, _meaning(key, selection)) for key, d in deltas.areas.items()]
    up_to = f"area up to {number(deltas.common_cmax)}, which both reach"
    rows += [_delta(key.replace("_at_c", "_common"), d, up_to) for key, d in deltas.at_common_cmax.items()]
    rows += [_delta(f"mae_at_coverage {key}", d, "") for key, d in _defined(deltas.risk_at).items()]
    found: Document = [Table(("number", "left", "right", "delta", "95% interval", "what it says"), tuple(rows), _RIGHT)]
    shares = [reading.estimates["cmax"].value for reading in readings]
    if shares[0] != shares[1]:
        found.append(Note("the runs answer unequal shares, and areas reward declining: compare the *_common rows"))
    return found


def _defined(found: Mapping[str, Delta]) -> dict[str, Delta]:
    return {key: d for key, d in found.items() if d.base is not None or d.new is not None}


def _delta(key: str, d: Delta, meaning: str) -> tuple[str, ...]:
    interval = interval_text(d.interval, signed=True)
    return key, number(d.base), number(d.new), number(d.delta, signed=True), interval, meaning


def _meaning(key: str, selection: Selection) -> str:
    return _MEANING[key].format(c=f"{selection.area_coverage:g}")
