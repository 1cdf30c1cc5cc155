"""`requirements-lowest.lock` holds the lower bounds of pyproject.toml, so `make test-lowest` tests what is promised."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).resolve().parent.parent


def promised() -> list[Requirement]:
    """What a user installs: the package and the extras that change what it can do."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"]
    return [Requirement(text) for text in (*project["dependencies"], *extras["fast"], *extras["embeddings"])]


@pytest.mark.parametrize("requirement", promised(), ids=lambda requirement: requirement.name)
def test_the_lowest_lock_holds_the_lower_bound(requirement: Requirement) -> None:
    (bound,) = [Version(part.version) for part in requirement.specifier if part.operator == ">="]
    lock = (ROOT / "requirements-lowest.lock").read_text(encoding="utf-8")
    locked = re.findall(rf"^{re.escape(requirement.name)}==([^ ;]+)", lock, re.MULTILINE | re.IGNORECASE)
    assert [Version(version) for version in locked] == [bound], (
        f'make lock UPGRADE="--upgrade-package {requirement.name}"; if it stays, the bound cannot be had'
    )
