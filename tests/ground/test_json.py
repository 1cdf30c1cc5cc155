"""JSON without numbers that JSON does not have."""

from __future__ import annotations

import pytest

from steelyard.ground.json import dumps, plain


def test_non_finite_numbers_are_never_written() -> None:
    assert plain({"a": float("nan"), "b": [float("inf"), 1.0]}) == {"a": None, "b": [None, 1.0]}
    with pytest.raises(ValueError, match="JSON"):
        dumps({"a": float("nan")})
