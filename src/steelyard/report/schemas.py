"""The JSON Schemas that are published, by the name of their document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from steelyard.decide.rules_file import rules_schema
from steelyard.registry import Registry
from steelyard.runs.calibration import calibrator_schema
from steelyard.runs.selective import selective_schema

schemas: Registry[Callable[[], dict[str, Any]]] = Registry("schema")
schemas.add("selective", selective_schema)
schemas.add("calibrator", calibrator_schema)
schemas.add("gate-rules", rules_schema)
