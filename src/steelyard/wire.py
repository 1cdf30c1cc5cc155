"""What every document has in common: JSON's own types, null for what is not finite, and a head that says what it is."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

import steelyard

SCHEMA_VERSION = "1"


def head(kind: str) -> dict[str, Any]:
    """How a document begins."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "tool": {"name": "steelyard", "version": steelyard.__version__},
    }


def plain(value: Any) -> Any:
    """The value in JSON's own types; non-finite numbers are null."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
