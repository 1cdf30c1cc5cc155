"""Rules in a file, so that a team keeps its gate next to its code. The shape is published as a JSON Schema.

baseline: active
inconclusive: warn          # report (its own exit code), fail, pass or warn
allow: [excerpt, missing=0.1]   # what bars no rule, up to a share of the rows; `steelyard help gate` lists the kinds
primary: [accuracy]         # rules about it are corrected among themselves, the others apart; by default all together
rules:
  - low(delta(accuracy)) >= -0.01
  - failure_rate <= 0.02
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from steelyard.errors import UsageError, printable
from steelyard.ground.json import DIALECT
from steelyard.ground.specs import spec_of
from steelyard.ground.structs import schema_parts
from steelyard.ground.yaml import load_yaml, places


class GateRules(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A gate's rules: as text, or by the name of a profile."""

    rules: list[Annotated[str, Meta(min_length=1)]] = []
    profile: str | None = None
    baseline: str | None = None
    inconclusive: Literal["report", "fail", "pass", "warn"] | None = None
    allow: list[Annotated[str, Meta(min_length=1)]] = []
    primary: list[Annotated[str, Meta(min_length=1)]] = []
    allow_missing: Annotated[float, Meta(ge=0, le=1)] | None = None  # the earlier form of allow: [missing=0.05]


def load_rules(path: Path) -> GateRules:
    """The rules in a file; an unknown key is an error with a hint."""
    raw = load_yaml(path)
    rules = spec_of(raw, GateRules, source=str(path), lines=places(path))
    if raw.get("rules") == [] or (not rules.rules and rules.profile is None):
        raise UsageError(f"{printable(path)}: rules or a profile are needed; a gate without rules passes nothing")
    return rules


def rules_schema() -> dict[str, Any]:
    """The file's JSON Schema."""
    (shape,), parts = schema_parts(GateRules)
    gate = parts["GateRules"]
    gate["properties"]["rules"]["minItems"] = 1
    gate["anyOf"] = [{"required": ["rules"]}, {"required": ["profile"], "properties": {"profile": {"type": "string"}}}]
    return {"$schema": DIALECT, "title": "Gate rules", **shape, "$defs": parts}
