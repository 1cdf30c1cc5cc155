"""Where pictures go."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def picture_files(figures: Mapping[str, Mapping[str, bytes]], folder: Path) -> dict[Path, bytes]:
    """The files that figures become in a folder: each as PNG, SVG and PDF."""
    return {folder / f"{name}.{suffix}": data for name, each in figures.items() for suffix, data in each.items()}
