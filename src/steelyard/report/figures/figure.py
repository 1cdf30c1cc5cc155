"""A figure as data: panels of marks, each with its numbers and the role that it plays; the drawing has the colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Floats = Sequence[float]
Series = Literal[  # the role of a mark: what is drawn alike in every figure
    "first",
    "second",
    "perfect",
    "hull",
    "before",
    "after",
    "reference",
    "fold",
    "whole",
]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A curve through points."""

    series: Series
    x: Floats
    y: Floats
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class Points:
    """Points that no line joins."""

    series: Series
    x: Floats
    y: Floats
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class Area:
    """What lies between two curves, such as a band."""

    series: Series
    x: Floats
    low: Floats
    high: Floats
    label: str | None = None


@dataclass(frozen=True, kw_only=True)
class Whiskers:
    """Upright intervals."""

    series: Series
    x: Floats
    low: Floats
    high: Floats
    label: str | None = None


@dataclass(frozen=True)
class Level:
    """A straight line across the panel: at a height, or upright at a place."""

    series: Series
    at: float
    upright: bool = False


@dataclass(frozen=True, kw_only=True)
class Bars:
    """Counts as bars, each with its number."""

    series: Series
    x: Floats
    counts: Sequence[int]
    width: float


Mark = Line | Points | Area | Whiskers | Level | Bars


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Marks on two axes, drawn in their order."""

    marks: tuple[Mark, ...]
    title: str = ""
    x_label: str = ""
    y_label: str = ""
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    from_zero: bool = False  # the y axis begins at 0 and ends where the marks do
    ticks: tuple[tuple[float, str], ...] = ()  # places on the x axis and what they are called


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture: rows of panels under a title.

    `name` is that of its files, `text` says what it shows, `path` is where a report finds it as a file, if anywhere.
    """

    name: str
    title: str
    text: str
    panels: tuple[tuple[Panel, ...], ...]
    heights: tuple[int, ...] | None = None  # of the rows, relative to each other; equal by default
    legend: bool = True
    path: str | None = None
