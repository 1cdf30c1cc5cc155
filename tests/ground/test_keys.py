"""Keys are carried as they are or refused, and never shown."""

from __future__ import annotations

import pytest

from steelyard.errors import UsageError
from steelyard.ground.keys import bearer, is_variable

KEY = "sk-SECRET-KEY"


@pytest.mark.parametrize("key", ["", " ", f"{KEY}\nx", f"{KEY}é", f"{KEY}\x00", f"Bearer {KEY}", f"{KEY}\u200b"])
def test_keys_that_no_header_can_carry(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        bearer(key)
    assert KEY not in str(caught.value)


def test_a_key_as_it_was_copied() -> None:
    assert bearer(f" {KEY}\n") == {"Authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "MY_KEY_2", "_k", "TEAM_A_OPENAI_KEY_PRODUCTION"])
def test_names(name: str) -> None:
    assert is_variable(name, {})


@pytest.mark.parametrize("key", [KEY, "sk_live4", "hf_abcDEF123", "a" * 32, "Ab1" * 8, "x y", "", "1A", "ghp_1"])
def test_what_may_be_a_key_is_no_name_unless_it_is_one(key: str) -> None:
    assert not is_variable(key, {})
    assert is_variable("sk_live4", {"sk_live4": "x"})
