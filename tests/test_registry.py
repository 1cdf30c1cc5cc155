"""A registry finds what was meant."""

from __future__ import annotations

import pytest

from steelyard.errors import UsageError
from steelyard.registry import Registry


def test_a_registry_suggests_what_was_meant() -> None:
    things: Registry[int] = Registry("thing")
    things.add("alpha", 1, aliases=("first",))
    assert things["first"] == things["alpha"] == 1
    with pytest.raises(UsageError, match="unknown thing 'alhpa'; did you mean 'alpha'"):
        things["alhpa"]
    with pytest.raises(UsageError, match="defined twice"):
        things.add("first", 2)
    things.remove("alpha")
    assert "first" not in things


def test_a_name_is_found_whatever_its_case_unless_two_are_alike() -> None:
    things: Registry[int] = Registry("thing")
    things.add("map", 1, aliases=("AP",))
    things.add("Ap", 2)
    assert things["MAP"] == 1
    assert things["AP"] == 1, "as it is written comes first"
    assert things["Ap"] == 2
    with pytest.raises(UsageError, match="'ap' may mean Ap or map; write it as one of them"):
        things["ap"]
