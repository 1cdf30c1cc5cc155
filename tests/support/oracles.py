"""Numbers of independent implementations, as the files in `tests/oracles` hold them.

python -m tests.support.oracles     write these files with one case to a line, so that a diff can be read
"""

from __future__ import annotations

import json
from typing import Any

from tests.support.places import TESTS

ORACLES = TESTS / "oracles"
SHOWN = sorted((TESTS / "golden").glob("*_edition.json"))  # what editions showed of their own stores


def oracle(name: str) -> Any:
    """What the oracle file of this name holds."""
    return json.loads((ORACLES / f"{name}.json").read_text())


def formatted(text: str) -> str:
    """The same document with one line per field, or per case of a field that is a list or an object of cases."""
    return f"{_opened(json.loads(text), depth=2)}\n"


def _opened(value: Any, depth: int) -> str:
    if not depth or not value or not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if isinstance(value, list):
        start, end, lines = "[", "]", [_opened(one, 0) for one in value]
    else:
        start, end, lines = "{", "}", [f"{json.dumps(key)}: {_opened(one, depth - 1)}" for key, one in value.items()]
    return ",\n".join(lines).join((f"{start}\n", f"\n{end}"))


def main() -> None:
    for path in (*sorted(ORACLES.glob("*.json")), *SHOWN):
        path.write_text(formatted(path.read_text()))


if __name__ == "__main__":
    main()
