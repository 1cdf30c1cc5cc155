"""What `selective` finds: one reading per run and variant, the deltas between two, and what must be said of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING

from steelyard.confidence.calibrators import Calibrator
from steelyard.errors import counted
from steelyard.ground.showing import Shows
from steelyard.naming import label_text
from steelyard.records.sources import Source
from steelyard.records.table import Records
from steelyard.study.frames import estimates_table
from steelyard.study.participants import Overlap
from steelyard.uncertainty.number import Delta, Estimate, Number
from steelyard.uncertainty.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

    from steelyard.ground.showing import Json

RANK = "confidence variant"  # the column that a variant's values stand in while it is read
HULL = "in-sample hull, not attainable"  # what the documented name `aurc_achievable` does not say


@dataclass(frozen=True)
class Loss:
    """The loss in use, and what a risk is multiplied with to be in the units of the scores."""

    name: str
    definition: str
    raw_multiplier: float


@dataclass(frozen=True)
class Reading:
    """One run ranked by one variant: the areas by key, and the risk at each requested coverage."""

    records: Records
    estimates: Mapping[str, Estimate]
    risk_at: Mapping[str, Estimate]
    calibration: Mapping[str, Estimate] = field(default_factory=dict)  # of a calibrated variant, against correctness

    def named(self) -> dict[str, Estimate]:
        """Every number of the reading by its key."""
        risks = {f"mae_at_coverage {key}": estimate for key, estimate in self.risk_at.items()}
        return {**self.estimates, **risks, **self.calibration}

    @property
    def curve(self) -> Mapping[str, list[float]]:
        detail = self.estimates["aurc_full"].detail or {}
        return detail.get("curve") or {k: [] for k in ("coverage", "selective_risk", "generalized_risk", "threshold")}

    @property
    def notes(self) -> list[str]:
        notes = remarks({**self.estimates, **{f"mae_at_coverage {key}": e for key, e in self.risk_at.items()}})
        hull = self.estimates["aurc_achievable"].value
        return notes if hull is None else [*notes, f"aurc_achievable: {HULL}"]

    @property
    def interpretation(self) -> dict[str, float | None]:
        """The excess in percent of the optimum, and how far below AURC the hull lies; None without a whole."""
        value = {key: e.value for key, e in self.estimates.items()}
        area, hull = value["aurc_full"], value["aurc_achievable"]
        return {
            "aurc_gap_pct": _percent(value["eaurc"], value["aurc_optimal"]),
            "augrc_gap_pct": _percent(value["eaugrc"], value["augrc_optimal"]),
            "achievable_gain_pct": _percent(None if area is None or hull is None else area - hull, area),
        }


def _percent(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole * 100


@dataclass(frozen=True)
class Deltas:
    """Two runs ranked by one variant: right − left, by key; the areas up to the coverage that both reach."""

    areas: Mapping[str, Delta]
    risk_at: Mapping[str, Delta]
    common_cmax: float
    at_common_cmax: Mapping[str, Delta]

    def named(self) -> dict[str, Delta]:
        """Every difference by its key."""
        common = {key.replace("_at_c", "_common"): d for key, d in self.at_common_cmax.items()}
        return {**self.areas, **common, **{f"mae_at_coverage {key}": d for key, d in self.risk_at.items()}}

    @property
    def notes(self) -> list[str]:
        return remarks(self.named())


@dataclass(frozen=True, kw_only=True, repr=False)
class Selection(Shows):
    """What declining buys: per variant one reading per run, and the deltas between two.

    >>> import steelyard as sy
    >>> said = {"target": ["a"] * 4, "prediction": ["a", "a", "a", "b"], "confidence": [0.9, 0.8, 0.7, 0.6]}
    >>> records = sy.Records.from_columns({"item": [1, 2, 3, 4], **said})
    >>> result = sy.selective(records, confidence="confidence", resamples=0)
    >>> list(result.readings)
    ['confidence']
    """

    sources: tuple[tuple[Source, ...], ...]
    modes: tuple[str | None, ...]
    population: Mapping[str, int]
    loss: Loss
    range: float | None
    settings: Settings
    area_coverage: float
    readings: Mapping[str, tuple[Reading, ...]]
    deltas: Mapping[str, Deltas] = field(default_factory=dict)
    overlap: Overlap | None = None
    lacking: Mapping[str, list[str]] = field(default_factory=dict)
    calibrators: Mapping[str, Calibrator] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def __repr__(self) -> str:
        runs = "two runs" if self.overlap else "one run"
        lines = [f"Selection: {runs}, {counted(self.population['items_total'], 'item')}, loss {self.loss.name}"]
        for name, readings in self.readings.items():
            areas = " and ".join(reading.estimates["aurc_full"].in_short for reading in readings)
            lines.append(f"  {name}: aurc {areas}")
        return "\n".join(lines)

    @property
    def run_names(self) -> tuple[str, ...]:
        """What two runs are called: by mode or model where these tell them apart, else by their files."""
        tables = [reading.records for reading in next(iter(self.readings.values()), ())]
        named = [tuple(table.only(column) for table in tables) for column in ("model", "strategy")]
        named += [tuple(" + ".join(source.name for source in sources) for sources in self.sources)]
        told = next((names for names in named if len(set(names)) == len(names) > 1 and all(names)), None)
        return ("left", "right") if told is None else (f"left: {told[0]}", f"right: {told[1]}")

    def to_arrow(self) -> pa.Table:
        """One row per number of each variant and run, and of two runs per difference: its key, value and interval."""
        sides = ("left", "right") if self.overlap else ("",)
        rows = [
            (variant, side, key, _as_ranked_by(variant, estimate))
            for variant, readings in self.readings.items()
            for side, reading in zip(sides, readings, strict=True)
            for key, estimate in reading.named().items()
        ]
        rows += [
            (variant, "right − left", key, _as_ranked_by(variant, _difference(delta)))
            for variant, deltas in self.deltas.items()
            for key, delta in deltas.named().items()
        ]
        variants, runs, keys, estimates = zip(*rows, strict=True) if rows else ((), (), (), ())
        more = {"confidence": variants, **({"run": runs} if self.overlap else {}), "number": keys}
        return estimates_table(estimates, **more)

    def _inputs(self) -> Iterator[str]:
        return (source.name for sources in self.sources for source in sources)

    def to_dict(self) -> Json:
        """Plain data: the metrics artifact."""
        from steelyard.study.selective_wire import selective_document

        return selective_document(self)


def _as_ranked_by(variant: str, e: Estimate) -> Estimate:
    """The estimate with what ranked by its name, instead of the column that held it meanwhile."""
    return replace(e, metric=e.metric.replace(f'rank="{RANK}"', f"rank={label_text(variant)}"))


def _difference(d: Delta) -> Estimate:
    """A difference in the form of a number: right − left."""
    known = {f.name: getattr(d, f.name) for f in fields(Number)}
    return Estimate(**known, metric=d.metric)


def remarks(named: Mapping[str, Estimate | Delta]) -> list[str]:
    """What numbers say of themselves: each remark once, with the keys that it is about unless it is about all."""
    keys: dict[str, list[str]] = {}
    for key, number in named.items():
        for note in number.notes:
            keys.setdefault(note, []).append(key)
    return [note if len(about) == len(named) else f"{', '.join(about)}: {note}" for note, about in keys.items()]
