"""Where rows came from: the files that were read, and the line of each row in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import printable
from steelyard.halves import whole_text
from steelyard.records.cautions import Caution
from steelyard.records.declared import Declared, disagreements
from steelyard.records.schema import Where


@dataclass(frozen=True)
class Source:
    """Where rows came from: a file's name, its digest, how many rows, and the line of each (None: one row per line).

    `about` is what the file says of its run: run_id, git_commit; `declared` are the numbers that it states of itself.
    `excerpt` says of how much the rows are a part, where the file says that there are more; `noted` is what else its
    reader cautions of.
    """

    name: str
    sha256: str | None
    rows: int
    _: KW_ONLY
    lines: npt.NDArray[np.int64] | None = None
    first_line: int = 1
    about: Mapping[str, str] = field(default_factory=dict)
    torn: bool = False  # its end could not be read
    excerpt: str = ""
    declared: tuple[Declared, ...] = ()
    noted: tuple[Caution, ...] = ()

    @property
    def is_whole(self) -> bool:
        """True if the rows are all that there should be."""
        return not self.lacking

    @property
    def lacking(self) -> str:
        """Why the rows are not all that there should be; nothing where they are."""
        reasons = [f"an excerpt, {self.excerpt}"] if self.excerpt else []
        if self.torn:
            reasons.append("its end could not be read")
        return "; ".join(reasons)

    @property
    def cautions(self) -> tuple[Caution, ...]:
        """What keeps a gate from believing these rows."""
        part = [Caution("excerpt", f"{printable(self.name)}: {self.lacking}")] if self.lacking else []
        said = [Caution("contradiction", text) for text in disagreements(self.name, self.declared)]
        return (*part, *self.noted, *said)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: what was read."""
        return {
            "path": whole_text(self.name),
            "sha256": self.sha256,
            "rows": self.rows,
            **({"about": dict(self.about)} if self.about else {}),
            **({"torn": True} if self.torn else {}),
            **({"excerpt": self.excerpt} if self.excerpt else {}),
            **({"declared": [each.to_dict() for each in self.declared]} if self.declared else {}),
        }

    def line(self, row: int) -> int:
        return self.first_line + row if self.lines is None else int(self.lines[row])


def where_of(sources: Sequence[Source]) -> Where:
    """The function from a row of a table to the file and the line that it came from."""

    def where(row: int) -> tuple[str | None, int]:
        for source in sources:
            if row < source.rows:
                return source.name, source.line(row)
            row -= source.rows
        return None, row + 1

    return where
