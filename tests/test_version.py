"""The version stands in one place, and what is installed was built from it."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

from packaging.version import Version

import steelyard

ROOT = Path(__file__).resolve().parent.parent


def project() -> dict[str, Any]:
    with (ROOT / "pyproject.toml").open("rb") as file:
        return tomllib.load(file)


def test_the_build_reads_the_version_from_the_package() -> None:
    settings = project()
    assert "version" not in settings["project"]
    assert "version" in settings["project"]["dynamic"]
    source = (ROOT / settings["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert re.findall(r'^__version__ = "(.+)"$', source, re.MULTILINE) == [steelyard.__version__]


def test_the_installed_metadata_agree() -> None:
    assert Version(version("steelyard")) == Version(steelyard.__version__)
