"""Digests: of files, and seals, which a document carries of everything else in it, so that a later edit is noticed."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from steelyard.halves import mended

CHANGED = "was changed after it was written"
_ESCAPED_HALF = re.compile(rb"\\\\(ud[89a-f][0-9a-f]{2})")


def digest_of(document: Mapping[str, Any]) -> str:
    """The digest of a document without the one that it carries."""
    return hashlib.sha256(_sealed(document)).hexdigest()


def is_sealed(document: Mapping[str, Any], digest: object) -> bool:
    """Whether a document is what got the digest; earlier versions sealed half characters as they were."""
    text = _sealed(document)
    texts = (text, _ESCAPED_HALF.sub(rb"\\\1", text))
    return any(hashlib.sha256(each).hexdigest() == digest for each in texts)


def _sealed(document: Mapping[str, Any]) -> bytes:
    rest = {key: value for key, value in document.items() if key.lower() != "digest"}
    return mended(json.dumps(rest, sort_keys=True, default=str).encode())  # a path may be no UTF-8


def file_digest(path: Path) -> str:
    """The digest of what is in a file, which may be larger than memory."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
