"""Confidence by name, calibrated or not: which calibrator a name means, and what a calibrator can be called.

verbalized_calibrated     the stated confidence through a temperature
calibrated:token_msp      a variant through a calibrator fitted on that variant alone
calibrated                whatever the one calibrator makes of its features
"""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.confidence import signals
from steelyard.confidence.calibrators import Calibrator
from steelyard.errors import UsageError, printable
from steelyard.ground.arrays import Floats
from steelyard.records.table import Records

_ONE, _ANY, _STATED = "calibrated:", "calibrated", "verbalized_calibrated"


def confidence(records: Records, name: str, calibrators: Sequence[Calibrator] = ()) -> Floats:
    """The confidence of every answered row by a variant's name, NaN elsewhere."""
    if is_calibrated(name):
        return calibrator_of(name, calibrators).confidence(records)
    return signals.uncalibrated(records, name)


def is_calibrated(name: str) -> bool:
    """True for variants that need a calibrator."""
    return name in (_ANY, _STATED) or name.startswith(_ONE)


def calibrator_of(name: str, calibrators: Sequence[Calibrator]) -> Calibrator:
    """The calibrator that a variant's name means."""
    variant = name.removeprefix(_ONE)
    if name == _STATED:
        wanted, fits = "a temperature calibrator of verbalized", [c for c in calibrators if _called(c) == _STATED]
    elif name.startswith(_ONE):
        wanted = f"a calibrator fitted on {printable(variant)} alone"
        fits = [c for c in calibrators if [f.name for f in c.features] == [variant]]
        if not fits and variant not in signals.variants:
            raise UsageError(f"{printable(name)}: {signals.variants.unknown(variant)}")
    else:
        wanted, fits = "a calibrator", [c for c in calibrators if _called(c) != _STATED] or list(calibrators)
    if len(fits) == 1:
        return fits[0]
    have = "; ".join(printable(c.name) for c in calibrators) or "none"
    problem = f"{len(fits)} of those given would do" if fits else f"given: {have}"
    raise UsageError(f"{printable(name)} needs `calibrators=FILE` with {wanted}; {problem}")


def named(calibrators: Sequence[Calibrator]) -> tuple[dict[str, Calibrator], list[Calibrator]]:
    """The names under which calibrators can be asked for, and those that no name would single out."""
    called: dict[str, list[Calibrator]] = {}
    for calibrator in calibrators:
        called.setdefault(_called(calibrator), []).append(calibrator)
    by_name = {name: those[0] for name, those in called.items() if len(those) == 1}
    return by_name, [c for those in called.values() if len(those) > 1 for c in those]


def _called(calibrator: Calibrator) -> str:
    names = [feature.name for feature in calibrator.features]
    if names == ["verbalized"] and calibrator.method == "temperature_scaling":
        return _STATED
    return f"{_ONE}{names[0]}" if len(names) == 1 else _ANY
