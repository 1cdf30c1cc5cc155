"""The registry for people: every metric in one table, and one metric explained."""

from __future__ import annotations

import re
from typing import Any

from steelyard.metrics import metrics as registry
from steelyard.metrics.definition import AS_BASE, Definition, bound
from steelyard.metrics.options import option_text
from steelyard.metrics.spellings import shown_name
from steelyard.metrics.titles import derived
from steelyard.naming import parse
from steelyard.report.document import Document, Heading, Note, Table, Verbatim
from steelyard.study.evaluation import known_metrics

_DROPS = ("title", "options", "bounds", "reads")  # `steelyard metrics NAME` says them all


def catalogue_report() -> Document:
    """Every metric: what it reads, better, bounds, and its first sentence."""
    document: Document = []
    for module, metrics in _by_question().items():
        rows = tuple(
            (shown_name(d), _title(d), _reads(d), d.better or "", _bounds(d), _options(d), _first_sentence(d))
            for d in metrics
        )
        names = ("metric", "title", "reads", "better", "bounds", "options", "what it says")
        document += [Heading(module), Table(names, rows, drops=_DROPS)]
    return [*document, Note("`steelyard metrics NAME` explains one with formula and example.")]


def explanation(name: str) -> Document:
    """One metric: what it is, its formula, edge cases and an example."""
    d = _definition(name)
    prose, example = _parts(d.doc)
    facts = [
        ("title", _title(d)),
        ("also typed as", ", ".join(d.names.typed)),
        ("formula", d.shown.formula),
        ("reads", _reads(d)),
        ("better", d.better or "neither direction by itself"),
        ("bounds", _bounds(d)),
        ("unit", d.shown.unit),
        ("options", _options(d)),
        ("members", ", ".join(d.members) if isinstance(d.members, tuple) else ""),
        (
            "interval",
            f"none: {d.uncertainty.no_interval}"
            if isinstance(d.uncertainty.no_interval, str) and d.uncertainty.no_interval
            else "",
        ),
        ("reference", d.shown.reference),
    ]
    document: Document = [Heading(shown_name(d)), *(Note(paragraph, literal=True) for paragraph in prose)]
    document.append(Table(("fact", "value"), tuple((k, v) for k, v in facts if v)))
    if example:
        document += [Note("Example (from steelyard import value):"), Verbatim("\n".join(example))]
    return document


def reference() -> Document:
    """Every metric explained, one after the other, by the file that asks its question."""
    document: Document = []
    for module, metrics in _by_question().items():
        document.append(Heading(module))
        rows = tuple(
            (shown_name(d), _title(d), _first_sentence(d), d.shown.formula, _options(d), d.better or "", _bounds(d))
            for d in metrics
        )
        document.append(Table(("metric", "title", "what it says", "formula", "options", "better", "bounds"), rows))
    return document


def _by_question() -> dict[str, list[Definition]]:
    definitions: dict[str, list[Definition]] = {}
    for d in known_metrics():
        definitions.setdefault(d.function.__module__.rpartition(".")[2], []).append(d)
    return definitions


def catalogue_document(name: str | None = None) -> Any:
    """The same as data."""
    definitions = [_definition(name)] if name else known_metrics()
    metrics = [
        {
            "name": d.name,
            "title": d.names.title or derived(d.name),
            "aliases": [*d.names.typed],
            "reads": list(_reads(d).split(", ")) if _reads(d) else [],
            "better": None if d.better == "as base" else d.better,
            "bounds": [b if isinstance(b, int | float) else None for b in d.bounds],
            "unit": d.shown.unit,
            "options": {p.name: {"kind": p.kind, **({} if p.required else {"default": p.default})} for p in d.params},
            "formula": d.shown.formula,
            "reference": d.shown.reference,
            "description": "\n\n".join(_parts(d.doc)[0]),
        }
        for d in definitions
    ]
    return metrics[0] if name else {"metrics": metrics}


def _definition(name: str) -> Definition:
    if any(mark in name for mark in ":(.@"):
        return bound(parse(name.replace("@k", "@1"))).definition
    return (
        registry[name] if registry.meant(name) is not None or not name.isidentifier() else bound(parse(name)).definition
    )


def _title(d: Definition) -> str:
    """The title as it is stated, with the names of its options in brackets: `Fairness Gap of [base] by [by]`."""
    return (d.names.title or derived(d.name)).replace("{", "[").replace("}", "]")


def _reads(d: Definition) -> str:
    if d.usual_reads is None:
        return "what its metric reads" + (", by" if any(p.name == "by" for p in d.params) else "")
    return ", ".join(d.usual_reads)


def _bounds(d: Definition) -> str:
    low, high = d.bounds
    if d.bounds == AS_BASE:
        return "as its metric"
    return "" if low is None and high is None else f"[{'−∞' if low is None else low}, {'∞' if high is None else high}]"


def _options(d: Definition) -> str:
    shown = []
    for p in d.params:
        default = "" if p.required or p.default is None else f"={option_text(p, p.default)}"
        shown.append(f"{p.name}{default}")
    return ", ".join(shown)


def _first_sentence(d: Definition) -> str:
    prose = _parts(d.doc)[0]
    return prose[0].split(". ")[0].rstrip(".") if prose else ""


def _parts(doc: str) -> tuple[list[str], list[str]]:
    """Paragraphs of prose, and the lines of the example."""
    prose, _, example = doc.partition(">>>")
    paragraphs = [re.sub(r"\s+", " ", p).strip() for p in prose.split("\n\n") if p.strip()]
    return paragraphs, [line for line in (">>>" + example).splitlines() if line.strip()] if example else []
