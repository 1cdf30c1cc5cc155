"""Options that say how sure numbers are made, as settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, cast

import typer

from steelyard.cli.command import Bundle

Resamples = Annotated[int, typer.Option("--resamples", help="Bootstrap resamples.")]
Seed = Annotated[int, typer.Option("--seed", help="Seed of the resamples.")]
Level = Annotated[float, typer.Option("--level", help="Level of the intervals.")]
Method = Annotated[
    str, typer.Option("--method", help="auto (by family), percentile, bca, or plain: percentile as it comes.")
]
Stream = Annotated[
    str, typer.Option("--stream", help="counter, or legacy to reproduce published percentile intervals.")
]


def settings(resamples: int, seed: int, level: float = 0.95, method: str = "auto", stream: str = "counter") -> Any:
    """How uncertainty is computed; a value that cannot be used is refused."""
    from steelyard.uncertainty.settings import Settings

    return Settings(resamples=resamples, seed=seed, level=level, method=cast(Any, method), stream=cast(Any, stream))


@dataclass(frozen=True, kw_only=True)
class Resampling(Bundle):
    """How often, and from which seed."""

    resamples: Resamples = 10_000
    seed: Seed = 42

    @property
    def settings(self) -> Any:
        return settings(self.resamples, self.seed)


@dataclass(frozen=True, kw_only=True)
class Intervals(Resampling):
    """The same, and at which level."""

    level: Level = 0.95

    @property
    def settings(self) -> Any:
        return settings(self.resamples, self.seed, self.level)


@dataclass(frozen=True, kw_only=True)
class MethodIntervals(Intervals):
    """The same, and by which method."""

    method: Method = "auto"

    @property
    def settings(self) -> Any:
        return settings(self.resamples, self.seed, self.level, self.method)


@dataclass(frozen=True, kw_only=True)
class Uncertainty(MethodIntervals):
    """All of it."""

    stream: Stream = "counter"

    @property
    def settings(self) -> Any:
        return settings(self.resamples, self.seed, self.level, self.method, self.stream)
