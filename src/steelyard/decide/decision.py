"""What a gate decided: one verdict per rule and number, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from steelyard.decide.numbers import Because, GateNumber, slice_names
from steelyard.errors import counted
from steelyard.ground.showing import Shows
from steelyard.naming import slice_text
from steelyard.records.cautions import Kind

if TYPE_CHECKING:
    from steelyard.ground.showing import Json

GateVerdict = Literal["pass", "fail", "inconclusive"]
Ended = Literal["pass", "fail", "inconclusive", "error"]  # a gate that could not be judged is none of the three
PASS: GateVerdict = "pass"
FAIL: GateVerdict = "fail"
INCONCLUSIVE: GateVerdict = "inconclusive"
Inconclusive = Literal["report", "fail", "pass", "warn"]  # what an inconclusive gate comes to
_FLOATS = ("value", "low", "high", "threshold", "p_value", "p_adjusted")
Cause = Literal["", "missing", "barred", "no interval", "unknown end", "open"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One rule about one number: what was measured, and what follows."""

    rule: str
    kind: str
    verdict: GateVerdict
    reason: str
    key: str
    number: GateNumber = field(default_factory=lambda: GateNumber(value=None))
    threshold: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    detectable: float | None = None
    clusters_needed: int | None = None
    advice: tuple[str, ...] = ()  # what would settle it, where it is inconclusive
    because: Because = ""  # why it passes, where that is not its interval
    cause: Cause = ""  # why it is neither pass nor fail on its merits

    @property
    def passed(self) -> bool:
        return self.verdict == PASS

    @property
    def slice(self) -> Mapping[str, Any]:
        return self.number.slice

    @property
    def value(self) -> float | None:
        return self.number.value

    @property
    def low(self) -> float | None:
        return None if self.number.interval is None else self.number.interval[0]

    @property
    def high(self) -> float | None:
        return None if self.number.interval is None else self.number.interval[1]

    @property
    def clusters(self) -> int | None:
        """How many clusters the number stands on; None where nobody stated it."""
        return self.number.clusters or None


@dataclass(frozen=True, kw_only=True, repr=False)
class Decision(Shows):
    """All rules of a gate, and what they come to."""

    verdict: GateVerdict
    rules: tuple[Verdict, ...]
    notes: tuple[str, ...] = ()
    inconclusive: Inconclusive = "report"
    allow: Mapping[Kind, float] = field(default_factory=dict)  # cautions that barred no rule, as asked

    def __repr__(self) -> str:
        counts = [(word, sum(v.verdict == word for v in self.rules)) for word in get_args(GateVerdict)]
        shown = ", ".join(f"{n} {word}" for word, n in counts if n)
        return f"Decision: {self.verdict.upper()} ({counted(len(self.rules), 'rule')}: {shown})"

    def to_arrow(self) -> pa.Table:
        """One row per rule and slice: the verdict, the number, its interval, the threshold and why."""
        rows = [(v, v.number) for v in self.rules]
        return pa.table(
            {
                "rule": pa.array([v.rule for v, _ in rows], pa.string()),
                "slice": pa.array([slice_text(slice_names(v.slice)) for v, _ in rows], pa.string()),
                "verdict": pa.array([v.verdict for v, _ in rows], pa.string()),
                **{name: pa.array([getattr(v, name) for v, _ in rows], pa.float64()) for name in _FLOATS},
                "level": pa.array([number.level for _, number in rows], pa.float64()),
                "n": pa.array([number.n for _, number in rows], pa.int64()),
                "clusters": pa.array([v.clusters for v, _ in rows], pa.int64()),
                "reason": pa.array([v.reason for v, _ in rows], pa.string()),
                "note": pa.array([number.note for _, number in rows], pa.string()),
            }
        )

    def to_dict(self) -> Json:
        """Plain data: what `acceptance_gate.json` holds, without the names of the run and of the baseline."""
        from steelyard.decide.wire import acceptance_document

        return acceptance_document(self, {})

    @property
    def passed(self) -> bool:
        """True if the run may pass: an inconclusive gate only where that was said beforehand."""
        return self.exit_code == 0

    @property
    def exit_code(self) -> int:
        if self.verdict == INCONCLUSIVE:
            return {"report": 6, "fail": 1, "pass": 0, "warn": 0}[self.inconclusive]
        return 0 if self.verdict == PASS else 1

    @property
    def reason(self) -> str:
        """One line: the first rule that decided, and why."""
        open_ = [v for v in self.rules if v.verdict == self.verdict and v.verdict != PASS]
        if not open_:
            return f"all {len(self.rules)} rules passed" if len(self.rules) > 1 else "the rule passed"
        more = f" (and {len(open_) - 1} more)" if len(open_) > 1 else ""
        return f"{open_[0].rule}{slice_text(slice_names(open_[0].slice))}: {open_[0].verdict}, {open_[0].reason}{more}"
