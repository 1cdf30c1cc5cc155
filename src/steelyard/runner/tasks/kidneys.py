"""Kidney function: eGFR, its stages, and when a case is too uncertain to be answered.

eGFR is CKD-EPI 2021 (creatinine, without race), in mL/min/1.73 m²:

    142 · min(Scr/κ, 1)^α · max(Scr/κ, 1)^−1.200 · 0.9938^age · [1.012 if female]

κ = 0.7, α = −0.241 for women and κ = 0.9, α = −0.302 for men; creatinine in mg/dL, at least 0.4, age at least 0, the
result rounded to two decimals. Inker et al., New England Journal of Medicine 385 (2021) 1737.

A case should be left to somebody else, for one or more reasons, which are said in this order:

    label_stage_conflict    CKD was diagnosed in stage 1 or 2, or ruled out in stage 3 to 5
    egfr_near_threshold:60  an eGFR that decides is within 3.0 of 15, 30, 60 or 90, 3.0 included: of this one
    ambiguous_trajectory    over several visits eGFR changed by 5.0 or less from the first to the last, 5.0 included, or
                            rose between some neighbouring visits and fell between others
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite
from typing import Literal

Diagnosis = Literal["ckd", "notckd"]

THRESHOLDS = (15.0, 30.0, 60.0, 90.0)
STAGES = (1, 2, 3, 4, 5)
NEAR = 3.0
SMALL_CHANGE = 5.0
_KAPPA = {"female": 0.7, "male": 0.9}
_ALPHA = {"female": -0.241, "male": -0.302}
_LEAST_CREATININE = 0.4


def constants_for(sex: object) -> Literal["female", "male"]:
    """Whose constants are used: those for men wherever the sex is not given as female."""
    return "female" if isinstance(sex, str) and sex.strip().casefold() in ("female", "f") else "male"


def egfr(creatinine: float | None, age: float, sex: object) -> float | None:
    """Estimated GFR by CKD-EPI 2021; None where creatinine is missing or not above 0.

    >>> egfr(1.2, 60, "female"), egfr(1.2, 60, "male")
    (51.82, 69.23)
    """
    if creatinine is None or not isfinite(creatinine) or creatinine <= 0:
        return None
    constants = constants_for(sex)
    ratio = max(creatinine, _LEAST_CREATININE) / _KAPPA[constants]
    value: float = 142 * min(ratio, 1.0) ** _ALPHA[constants] * max(ratio, 1.0) ** -1.2 * 0.9938 ** max(age, 0.0)
    return round(value * (1.012 if constants == "female" else 1.0), 2)


def creatinine_for(wanted: float, age: float, sex: object) -> float:
    """The creatinine whose eGFR is nearest to the wanted one, to two decimals."""
    constants = constants_for(sex)
    factor = wanted / (142 * 0.9938 ** max(age, 0.0) * (1.012 if constants == "female" else 1.0))
    exponent = _ALPHA[constants] if factor > 1 else -1.2
    return round(max(_KAPPA[constants] * factor ** (1 / exponent), _LEAST_CREATININE), 2)


def stage_of(egfr: float) -> int:
    """The KDIGO category of an eGFR: 1 from 90, 2 from 60, 3 from 30, 4 from 15, else 5.

    >>> [stage_of(value) for value in (90, 89.99, 60, 30, 15, 14.99)]
    [1, 2, 2, 3, 4, 5]
    """
    return 5 - sum(egfr >= threshold for threshold in THRESHOLDS)


def nearest_threshold(egfr: float) -> tuple[float, float]:
    """The threshold that an eGFR is nearest to, the lower of two, and how far it is from it.

    >>> nearest_threshold(62.99), nearest_threshold(45)
    ((60.0, 2.99), (30.0, 15.0))
    """
    return min(((threshold, abs(round(egfr - threshold, 2))) for threshold in THRESHOLDS), key=lambda pair: pair[1])


def is_near_threshold(egfr: float) -> bool:
    """True if an eGFR could as well be in the next stage."""
    return nearest_threshold(egfr)[1] <= NEAR


def is_conflict(diagnosis: Diagnosis, stage: int) -> bool:
    """True if a diagnosis says one thing and the stage another."""
    return (diagnosis == "ckd") == (stage <= 2)


def is_ambiguous(visits: Sequence[float]) -> bool:
    """True if the eGFR of successive visits says too little, or two things."""
    changes = [round(after - before, 2) for before, after in pairwise(visits)]
    mixed = any(change > 0 for change in changes) and any(change < 0 for change in changes)
    return mixed or abs(round(visits[-1] - visits[0], 2)) <= SMALL_CHANGE


def reasons_to_defer(deciding: Sequence[float], diagnosis: Diagnosis | None, visits: Sequence[float] = ()) -> list[str]:
    """Why a case should be left to somebody else.

    `deciding` are the eGFRs that decide, the latest last; `diagnosis` is None where there is none, or it does not
    matter; `visits` are all eGFRs of a trajectory.
    """
    reasons = []
    if diagnosis is not None and is_conflict(diagnosis, stage_of(deciding[-1])):
        reasons.append("label_stage_conflict")
    near = [nearest_threshold(value)[0] for value in deciding if is_near_threshold(value)]
    reasons += [f"egfr_near_threshold:{threshold:g}" for threshold in dict.fromkeys(near)]
    if visits and is_ambiguous(visits):
        reasons.append("ambiguous_trajectory")
    return reasons
