"""Where the files are that tests read."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTS = ROOT / "tests"
EXAMPLES = ROOT / "examples"
SHARED = ROOT.parent / "shared" / "data"  # may be missing
