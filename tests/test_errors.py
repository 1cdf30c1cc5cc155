"""Errors: an exit code each, and where it went wrong."""

from __future__ import annotations

from steelyard.errors import InputError, SteelyardError, printable


def test_every_error_has_an_exit_code_of_its_own() -> None:
    codes = {kind.exit_code for kind in SteelyardError.__subclasses__()}
    assert codes == {2, 3, 4, 5}
    assert str(InputError("x", file="f\x1b", line=3, field="a\nb")) == "f\\x1b:3: a\\nb: x"
    assert len(printable("x" * 1000)) == 120
