"""Where pictures go."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from steelyard.report.figures.figure import Figure


def picture_files(figures: Iterable[Figure], folder: Path) -> dict[Path, bytes]:
    """The files that figures become in a folder: each as PNG, SVG and PDF."""
    from steelyard.report.figures.drawing import drawn

    pictures = drawn(figures)
    return {folder / f"{name}.{suffix}": data for name, each in pictures.items() for suffix, data in each.items()}
