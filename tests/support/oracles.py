"""Numbers of independent implementations, as the files in `tests/oracles` hold them."""

from __future__ import annotations

import json
from typing import Any

from tests.support.places import TESTS

ORACLES = TESTS / "oracles"


def oracle(name: str) -> Any:
    """What the oracle file of this name holds."""
    return json.loads((ORACLES / f"{name}.json").read_text())
