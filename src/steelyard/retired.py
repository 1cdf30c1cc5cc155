"""Spellings that still work and are going away, with the version in which each is gone.

A spelling is a command or function and its parameter, as messages name them. Whoever meets one says so with
`deprecated`. When its version is reached, a test fails until the spelling and its line here are taken away.
"""

from __future__ import annotations

REMOVE_IN = {
    # deprecated in 0.12.0 for two versions: allow=missing=SHARE
    "gate allow_missing=": "0.14.0",
    "steelyard_gate allow_missing=": "0.14.0",
    # accepted since 0.3.0, with no promise
    "runs decide require_significant=": "0.13.0",
    "steelyard_gate allow_inconclusive=": "0.13.0",
}


def deprecated(spelling: str, instead: str, *, typed: str) -> str:
    """What to say where a retired spelling was `typed`: in which version it goes, and what to do instead."""
    return f"{typed} is deprecated and will be removed in {REMOVE_IN[spelling]}: {instead}"
