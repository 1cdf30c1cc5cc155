"""How uncertainty is computed; with the data, all that a result depends on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from steelyard.errors import UsageError
from steelyard.uncertainty.weights import STREAMS

EDITION = 2  # of the rules that make intervals, p-values and verdicts; artifacts record it
MOST_RESAMPLES = 10_000_000
Method = Literal["auto", "percentile", "bca", "plain"]
Stream = Literal["counter", "legacy"]
METHODS: tuple[Method, ...] = get_args(Method)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How uncertainty is computed."""

    resamples: int = 10_000
    seed: int = 42
    level: float = 0.95
    method: Method = "auto"
    stream: Stream = "counter"

    def __post_init__(self) -> None:
        if self.resamples and not 100 <= self.resamples <= MOST_RESAMPLES:
            raise UsageError(f"resamples is at least 100 and at most {MOST_RESAMPLES:,}, or 0 for none")
        if not 0 <= self.seed < 2**32:
            raise UsageError("seed is a whole number from 0 to 4294967295")
        if not 0.5 <= self.level < 1:
            raise UsageError("level is at least 0.5 and below 1, such as 0.95")
        if self.method not in METHODS:
            raise UsageError(f"method is one of {', '.join(METHODS)}")
        if self.stream not in STREAMS:
            raise UsageError(f"stream is one of {', '.join(STREAMS)}")
        if self.stream == "legacy" and self.method == "bca":
            raise UsageError("the legacy stream is documented with plain percentile intervals; drop `method=bca`")

    def to_dict(self) -> dict[str, Any]:
        """Plain data, with the edition of the rules."""
        return {**asdict(self), "edition": EDITION}

    @property
    def by_family(self) -> bool:
        """True where each family of metrics has its own method."""
        return self.method == "auto" and self.stream == "counter"

    @property
    def percentiles(self) -> bool:
        """True where intervals are percentiles of the resampled values."""
        return self.method in ("percentile", "plain") or self.stream == "legacy"

    @property
    def unstretched(self) -> bool:
        """True where a percentile interval is left as it comes, not stretched to what it should allow for."""
        return self.method == "plain" or self.stream == "legacy"
