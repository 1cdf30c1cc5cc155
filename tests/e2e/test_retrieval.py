"""x"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from steelyard.cli.main import main


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} in JSON"))


def command(*arguments: Any, root: Path, **env: str) -> Done:
    """`steelyard` inside this process: as its script does it, without the second that a new interpreter takes."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    clean = {key: text for key, text in os.environ.items() if not key.startswith(("STEELYARD_", "GITHUB_"))}
    before = signal.getsignal(signal.SIGTERM)
    with (
        patch.dict(os.environ, {**clean, "STEELYARD_ROOT": str(root), **env}, clear=True),
        patch.object(sys, "argv", ["steelyard", *map(str, arguments)]),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(bool(ended.code))
        finally:
            signal.signal(signal.SIGTERM, before)
    return Done(code, out.getvalue(), err.getvalue())
