"""How a signal becomes a confidence: a registry of variants, each a function of the signals that it names.

A variant ranks answers; higher is surer. It reads `signal.*` columns of answered rows only: a row without an answer
needs no confidence. A signal that is missing where it is needed is an error that names the row, never a silent zero,
except where the variant's definition says what null stands for.

    llm                                          a registered variant
    secondary:token_msp+verbalized:average       two variants, averaged or multiplied
    confidence, signal.mine                      a numeric column as it is

With the two that go through a calibrator (`by_name.py`) and the combination, there are sixteen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steelyard.errors import InputError, UsageError, printable
from steelyard.ground.arrays import Floats
from steelyard.records.derive import ANSWERED
from steelyard.records.schema import kind_of
from steelyard.records.table import Records
from steelyard.registry import Registry, closest

DEFAULT = "llm"
PROBABILITIES = ("verbalized", "token_msp", "consistency", "consistency_modal_confidence", "confidence")
_MOST_EVIDENCE = 3
_SECONDARY = "secondary:"
_COMBINED: Mapping[str, Callable[[Floats, Floats], Floats]] = {
    "average": lambda a, b: (a + b) / 2,
    "product": lambda a, b: a * b,
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One way from signals to a confidence. `nullable` signals may be null: the function says what that means."""

    name: str
    needs: tuple[str, ...]
    nullable: frozenset[str]
    meaning: str
    function: Callable[..., Floats]


variants: Registry[Variant] = Registry("confidence variant")


def variant(*needs: str, nullable: Sequence[str] = (), also_as: Sequence[str] = ()) -> Callable[[Any], Any]:
    """Register a function of signals, given in this order as arrays with NaN for null; `also_as` are further names."""

    def register(function: Callable[..., Floats]) -> Callable[..., Floats]:
        meaning = " ".join((function.__doc__ or "").split())
        for name in (function.__name__, *also_as):
            variants.add(
                name, Variant(name=name, needs=needs, nullable=frozenset(nullable), meaning=meaning, function=function)
            )
        return function

    return register


# -- the variants ------------------------------------------------------------------------------------------------------


@variant("llm_evidence_count", also_as=["total_evidence"])
def llm(evidence: Floats) -> Floats:
    """Number of evidence quotes that the model gave."""
    return evidence


@variant("retrieval_similarity_mean", nullable=["retrieval_similarity_mean"])
def retrieval_similarity_mean(similarity: Floats) -> Floats:
    """Mean similarity of the retrieved references; 0 where nothing was retrieved."""
    return _or(similarity, 0.0)


@variant("retrieval_similarity_max", nullable=["retrieval_similarity_max"])
def retrieval_similarity_max(similarity: Floats) -> Floats:
    """Largest similarity of the retrieved references; 0 where nothing was retrieved."""
    return _or(similarity, 0.0)


@variant("llm_evidence_count", "retrieval_similarity_mean", nullable=["retrieval_similarity_mean"])
def hybrid_evidence_similarity(evidence: Floats, similarity: Floats) -> Floats:
    """½·e + ½·s: evidence (three quotes count as full) and mean similarity."""
    return 0.5 * _evidence(evidence) + 0.5 * _unit(_or(similarity, 0.0))


@variant("verbalized_confidence", nullable=["verbalized_confidence"])
def verbalized(stated: Floats) -> Floats:
    """What the model said on a scale from 1 to 5, as (v − 1)/4; ½ where it said nothing."""
    off = ~np.isnan(stated) & ~np.isin(stated, (1, 2, 3, 4, 5))
    if off.any():
        raise _OffScaleError(off, "verbalized_confidence", "a whole number from 1 to 5 is expected")
    return _or((stated - 1) / 4, 0.5)


@variant(
    "verbalized_confidence",
    "llm_evidence_count",
    "retrieval_similarity_mean",
    nullable=["verbalized_confidence", "retrieval_similarity_mean"],
)
def hybrid_verbalized(stated: Floats, evidence: Floats, similarity: Floats) -> Floats:
    """0.4·v + 0.3·e + 0.3·s: stated confidence, evidence and mean similarity."""
    return 0.4 * verbalized(stated) + 0.3 * _evidence(evidence) + 0.3 * _unit(_or(similarity, 0.0))


@variant("token_msp")
def token_msp(probability: Floats) -> Floats:
    """Mean probability of the answer's tokens, kept within [0, 1]."""
    return _unit(probability)


@variant("token_pe")
def token_pe(entropy: Floats) -> Floats:
    """1/(1 + entropy): mean predictive entropy of the answer's tokens."""
    return 1 / (1 + _not_negative(entropy, "token_pe"))


@variant("token_energy")
def token_energy(energy: Floats) -> Floats:
    """exp(energy): the probability mass of the likeliest tokens."""
    mass = np.exp(np.minimum(energy, 700.0))
    if (energy > 700.0).any():
        raise _OffScaleError(energy > 700.0, "token_energy", "the log of a probability mass is expected")
    return mass


@variant("consistency_modal_confidence")
def consistency(share: Floats) -> Floats:
    """Share of repeated answers that gave the commonest one, kept within [0, 1]."""
    return _unit(share)


@variant("consistency_score_std")
def consistency_inverse_std(spread: Floats) -> Floats:
    """1/(1 + spread): standard deviation of repeated answers."""
    return 1 / (1 + _not_negative(spread, "consistency_score_std"))


@variant(
    "consistency_modal_confidence",
    "llm_evidence_count",
    "retrieval_similarity_mean",
    nullable=["retrieval_similarity_mean"],
)
def hybrid_consistency(share: Floats, evidence: Floats, similarity: Floats) -> Floats:
    """0.4·c + 0.3·e + 0.3·s: modal share, evidence and mean similarity."""
    return 0.4 * _unit(share) + 0.3 * _evidence(evidence) + 0.3 * _unit(_or(similarity, 0.0))


def _evidence(count: Floats) -> Floats:
    return _unit(count / _MOST_EVIDENCE)


def _unit(values: Floats) -> Floats:
    return np.clip(values, 0.0, 1.0)


def _or(values: Floats, instead: float) -> Floats:
    return np.where(np.isnan(values), instead, values)


def _not_negative(values: Floats, signal: str) -> Floats:
    if (values < 0).any():
        raise _OffScaleError(values < 0, signal, "a number of at least 0 is expected")
    return values


class _OffScaleError(Exception):
    """Some values of a signal are not on its scale; the caller knows the rows."""

    def __init__(self, rows: npt.NDArray[np.bool_], signal: str, expected: str) -> None:
        super().__init__(expected)
        self.rows, self.signal, self.expected = rows, signal, expected


# -- reading them off records ------------------------------------------------------------------------------------------


def uncalibrated(records: Records, name: str) -> Floats:
    """The confidence of every answered row by a variant's name, NaN elsewhere."""
    if name.startswith(_SECONDARY):
        first, second, how = _parts(name)
        return _COMBINED[how](uncalibrated(records, first), uncalibrated(records, second))
    if name in variants:
        return _of_signals(records, variants[name])
    if name in records:
        return column(records, name, needed_by="this ranking")
    raise UsageError(_unknown(records, name))


def columns_of(name: str) -> list[str]:
    """The columns that a variant reads."""
    if name.startswith(_SECONDARY):
        first, second, _ = _parts(name)
        return list(dict.fromkeys((*columns_of(first), *columns_of(second))))
    return [f"signal.{need}" for need in variants[name].needs] if name in variants else [name]


def lacking(records: Records, name: str) -> list[str]:
    """The signals that a variant needs and that this table does not have."""
    return [need for need in variants[name].needs if f"signal.{need}" not in records]


def column(records: Records, name: str, *, needed_by: str, fill: float | None = None, hint: str = "") -> Floats:
    """A numeric column on answered rows; null is an error that names the row, or `fill`."""
    values = records.numbers(name, needed_by=needed_by)
    answered = records.outcome == ANSWERED
    missing = answered & np.isnan(values)
    if missing.any():
        if fill is None:
            raise _missing(records, missing, name, needed_by, hint)
        values = _or(values, fill)
    return np.where(answered, values, np.nan)


def check_verbalized(records: Records) -> None:
    """Refuse stated confidences that are not on their scale from 1 to 5."""
    if "signal.verbalized_confidence" in records:
        uncalibrated(records, "verbalized")


def _missing(records: Records, rows: npt.NDArray[np.bool_], key: str, name: str, hint: str) -> InputError:
    """A signal is null where it is needed: says of which participant and item, and for which variant."""
    row = int(np.flatnonzero(rows)[0])
    more = f" ({int(rows.sum())} answered rows lack it)" if rows.sum() > 1 else ""
    return _at(records, row, key, f"is missing; {name} needs it for every answer{more}{hint}")


def _parts(name: str) -> tuple[str, str, str]:
    pair, _, how = name.removeprefix(_SECONDARY).rpartition(":")
    first, plus, second = pair.partition("+")
    if not (plus and first and second) or how not in _COMBINED:
        raise UsageError(
            f"'{printable(name)}' is not a combination; write secondary:<a>+<b>:average or secondary:<a>+<b>:product"
        )
    for part in (first, second):
        if part not in variants:
            raise UsageError(f"{printable(name)}: {variants.unknown(part)}")
    return first, second, how


def _of_signals(records: Records, variant: Variant) -> Floats:
    answered = records.outcome == ANSWERED
    if not answered.any():
        return np.full(len(records), np.nan)
    names = [f"signal.{need}" for need in variant.needs]
    absent = lacking(records, variant.name)
    if absent:
        raise InputError(_not_there(records, variant, absent), file=records.name)
    values = []
    for need, name in zip(variant.needs, names, strict=True):
        fill = math.nan if need in variant.nullable else None
        values.append(column(records, name, needed_by=variant.name, fill=fill)[answered])
    result = np.full(len(records), np.nan)
    try:
        result[answered] = variant.function(*values)
    except _OffScaleError as problem:
        row = int(np.flatnonzero(answered)[np.argmax(problem.rows)])
        raise _at(records, row, f"signal.{problem.signal}", f"{problem.expected} by {variant.name}") from None
    return result


def _not_there(records: Records, variant: Variant, absent: Sequence[str]) -> str:
    present = usable(records)
    choose = f"choose among {', '.join(present)}" if present else "no column of this table can rank its answers"
    return f"{variant.name} needs the signal {', '.join(absent)}, which is not there; {choose}"


def usable(records: Records) -> list[str]:
    """What can rank the answers of a table: variants whose signals are there, and its own numeric columns."""
    names = [name for name in variants if not lacking(records, name)]
    needed = {f"signal.{need}" for name in variants for need in variants[name].needs}
    own = [c for c in records.stated if c == "confidence" or (c.startswith("signal.") and c not in needed)]
    return names + [printable(c) for c in own if kind_of(records.column(c)) in ("int", "float")]


def _unknown(records: Records, name: str) -> str:
    own = {c.removeprefix("signal."): c for c in records.stated if c.startswith("signal.") or c == "confidence"}
    near = closest(name, [*variants, "verbalized_calibrated", "calibrated", *own, *own.values()])
    near = own.get(near, near) if near and near not in variants else near
    more = "calibrated:<variant>, secondary:<a>+<b>:<average|product>"
    hint = f"did you mean '{near}'?" if near else f"here there are {', '.join(usable(records))}; also {more}"
    return f"unknown confidence variant '{printable(name)}'; {hint}"


def _at(records: Records, row: int, key: str, problem: str) -> InputError:
    file, line = records.where(row)
    return InputError(problem, file=file, line=line, field=key)
