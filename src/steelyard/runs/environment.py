"""Whose store is meant where a command does not say: the environment names root, tenant and domain.

The names of the documented retrieval tool count where Steelyard's own are not set; that is said once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from steelyard.runs.layout import found_root

NO_TENANT = "-"  # names the scope of no tenant where a variable names one
_OTHERS = {"STEELYARD_ROOT": "EMBEDDINGSHIFT_ROOT", "STEELYARD_TENANT": "EMBEDDINGSHIFT_TENANT"}
_said: set[str] = set()

Say = Callable[[str], None]


def root_of(given: Path | None, environment: Mapping[str, str], say: Say) -> Path:
    """The root that holds `results`."""
    named = given or (Path(text) if (text := _variable("STEELYARD_ROOT", environment, say)) else None)
    return named.resolve() if named is not None else found_root(Path.cwd())


def tenant_of(given: str | None, environment: Mapping[str, str], say: Say) -> str | None:
    """Whose runs; None is the scope of no tenant."""
    named = given or _variable("STEELYARD_TENANT", environment, say)
    return None if named in (None, NO_TENANT) else named


def domain_of(given: str | None, environment: Mapping[str, str]) -> str | None:
    """Which domain's runs; None where none is named."""
    return given or environment.get("STEELYARD_DOMAIN") or None


def _variable(name: str, environment: Mapping[str, str], say: Say) -> str | None:
    own = environment.get(name)
    if own:
        return own
    other = _OTHERS[name]
    value = environment.get(other) or None
    if value is not None and other not in _said:
        _said.add(other)
        say(f"{other} is used, because {name} is not set")
    return value
