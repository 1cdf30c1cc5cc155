"""What is asked of a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Message:
    """One part of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str
