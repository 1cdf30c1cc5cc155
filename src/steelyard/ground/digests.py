"""Digests: of files, and seals, which a document carries of everything else in it, so that a later edit is noticed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHANGED = "was changed after it was written"


def digest_of(document: Mapping[str, Any]) -> str:
    """The digest of a document without the one that it carries."""
    rest = {key: value for key, value in document.items() if key.lower() != "digest"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, default=str).encode()).hexdigest()


def file_digest(path: Path) -> str:
    """The digest of what is in a file, which may be larger than memory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
