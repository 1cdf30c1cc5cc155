"""Which version of its schema a document states, whoever wrote it: `SchemaVersion` and `schema_version` alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

SUPPORTED = ("1",)


def refusal(document: Any) -> str:
    """Why a document cannot be read: its version, where it states one that this program does not know; else nothing."""
    if not isinstance(document, Mapping):
        return ""
    stated = [value for key, value in document.items() if key.lower().replace("_", "") == "schemaversion"]
    unknown = [value for value in stated if value is not None and not _is_supported(value)]
    if not unknown:
        return ""
    plain = re.fullmatch(r"\d{1,3}(\.\d{1,3})?", str(unknown[0]))
    named = f"version {unknown[0]}" if plain else "a version that is not known"
    return f"{named}; this program reads {', '.join(SUPPORTED)}"


def _is_supported(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, str | int) and str(value) in SUPPORTED
