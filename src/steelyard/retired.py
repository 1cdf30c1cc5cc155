"""Spellings that still work and are going away, with the version in which each is gone.

A spelling is a command or function and its parameter, as messages name them. Whoever meets one says so with
`deprecated`. When its version is reached, a test fails until the spelling and its line here are taken away.
"""

from __future__ import annotations

REMOVE_IN = {
    # deprecated in 0.10.0 for two versions: files are named by their place
    "benchmark baseline=": "0.12.0",
    "benchmark model=": "0.12.0",
    "retrieval eval queries=": "0.12.0",
    "retrieval eval refs=": "0.12.0",
    "retrieval run docs=": "0.12.0",
    "retrieval run queries=": "0.12.0",
    "runs matrix spec=": "0.12.0",
    "segment propose baseline=": "0.12.0",
    "segment propose shifted=": "0.12.0",
    "shift apply queries=": "0.12.0",
    "shift train docs=": "0.12.0",
    "shift train queries=": "0.12.0",
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
