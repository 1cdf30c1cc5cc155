"""LaTeX that plain pdflatex sets: numbers, intervals, Greek and arrows in math; nothing of data becomes a command."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import steelyard as sy
from steelyard.report.catalogue import catalogue_report, reference
from steelyard.report.document import (
    Count,
    Document,
    Heading,
    Marks,
    Measured,
    MetricName,
    Note,
    Remarks,
    Span,
    Table,
    Value,
    Verbatim,
    Word,
)
from steelyard.report.evaluation import evaluation_report
from steelyard.report.formats import render

SIGNS = "Δ α β κ Ω ↑ ↓ → ← ↳ − ± × · ≤ ≥ ≠ ∞ … CO₂ m² – — \\ { } $ & # % _ ^ ~ < > | \" ' ` - [ *"
DOCUMENT: Document = [
    Heading(f"gate: FAIL {SIGNS}", "bad"),
    Note(SIGNS),
    Table(
        ("metric", "value", "95% interval", "n", "verdict", SIGNS, "notes"),
        (
            (
                MetricName("mae", "lower"),
                Value(-1e-7, unit="ms"),
                Span((-0.1, float("inf"))),
                Count(1234),
                Word("FAIL", "bad"),
                Measured(0.5, (0.4, 0.6), Marks((1,))),
                Marks((1,)),
            ),
            ("  ↳ [x", Value(None), Span(None), "", "*", Measured(None, None, Marks(())), SIGNS),
        ),
    ),
    Remarks((SIGNS,)),
    Verbatim(f"[user]\n\n  {SIGNS}"),
]


def test_signs_are_set_in_math_and_intervals_too() -> None:
    page = render("latex", DOCUMENT)
    assert "$0.5000$ $[0.4000, 0.6000]$ (1)" in page
    assert "\\mathrm{unknown}" in page
    assert not set("ΔαβκΩ↑↓→←↳−±×·≤≥≠∞…₂²") & set(page)


def _hostile() -> Document:
    """A report whose labels and groups are commands of LaTeX."""
    names = ("\\write18{id}", "50% a_b $x^2$ & #1 ~", "\\input{/etc/passwd}", "}\\end{tabular}", "naïve Ångström")
    rows = [
        {"item": i, "target": names[i % 5], "prediction": names[i // 2 % 5], "group.site": names[i % 5]}
        for i in range(40)
    ]
    return evaluation_report(
        sy.evaluate(rows, ["accuracy", "worst_group(accuracy, by=group.site)"], by="group.site", resamples=0)
    )


def test_formulas_of_every_metric_are_letters_that_plain_latex_has() -> None:
    page = render("latex", [*reference(), *catalogue_report()])
    assert {sign for sign in page if ord(sign) > 0x17F} == set()


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="no pdflatex is installed here")
@pytest.mark.parametrize(
    "made", [lambda: DOCUMENT, reference, catalogue_report, _hostile], ids=["signs", "metrics", "list", "hostile"]
)
def test_pdflatex_sets_it(made: Callable[[], Document], tmp_path: Path) -> None:
    packages = "\\usepackage[T1]{fontenc}\\usepackage{booktabs}\\usepackage{graphicx}\\usepackage{textcomp}"
    body = render("latex", made())
    (tmp_path / "a.tex").write_text(f"\\documentclass{{article}}{packages}\\begin{{document}}{body}\\end{{document}}\n")
    words = ("pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "a.tex")
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, errors="replace", timeout=120)
    assert done.returncode == 0, done.stdout[-2000:]
