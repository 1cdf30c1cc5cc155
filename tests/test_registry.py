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
