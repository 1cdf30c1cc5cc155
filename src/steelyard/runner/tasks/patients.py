"""Patients with kidney findings: generated from a seed, or read from the UCI chronic kidney disease table.

A generated patient depends on the seed and on his number alone: the first hundred of a thousand are the hundred that
are made when a hundred are asked for. One in ten has a diagnosis that his eGFR does not bear out; in all others, what
is shown agrees with the diagnosis: albumin in the urine and a history with CKD, neither without.

The UCI table is read as it is: tabs and blanks around cells, `?` for a missing value, numbers among texts. A row
without creatinine above 0, without age or, where it is needed, without a diagnosis, is left out and counted. The table
has no sex, so that eGFR is that of men; a column `sex` is used if there is one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import isfinite
from typing import Any

import numpy as np

from steelyard.errors import InputError
from steelyard.ground.randomness import words
from steelyard.records.sources import Source
from steelyard.records.table import Records
from steelyard.runner.tasks.contract import DataSpec
from steelyard.runner.tasks.kidneys import Diagnosis, creatinine_for, egfr, stage_of
from steelyard.runner.tasks.rows import ids_of, values_of

GENERATED = 200  # patients, where it is not said how many
MONTHS = (0, 6, 12, 18)  # of the visits of a generated patient

# the findings that a prompt may show, with the columns of the UCI table that hold them
COLUMNS = {
    "age": "age",
    "creatinine": "sc",
    "blood_pressure": "bp",
    "urine_specific_gravity": "sg",
    "urine_albumin": "al",
    "urine_sugar": "su",
    "urine_red_cells": "rbc",
    "urine_pus_cells": "pc",
    "urine_pus_cell_clumps": "pcc",
    "urine_bacteria": "ba",
    "glucose": "bgr",
    "urea": "bu",
    "sodium": "sod",
    "potassium": "pot",
    "haemoglobin": "hemo",
    "packed_cell_volume": "pcv",
    "white_cells": "wc",
    "red_cells": "rc",
    "hypertension": "htn",
    "diabetes": "dm",
    "coronary_disease": "cad",
    "appetite": "appet",
    "pedal_oedema": "pe",
    "anaemia": "ane",
}
_DIAGNOSES: Mapping[str, Diagnosis] = {"ckd": "ckd", "notckd": "notckd"}
_STAGES = (  # how many patients have at most this stage, and its eGFR
    (0.25, (90.0, 120.0)),
    (0.50, (60.0, 90.0)),
    (0.75, (30.0, 60.0)),
    (0.90, (15.0, 30.0)),
    (1.00, (5.0, 15.0)),
)
_CONFLICTS = 0.10
_PLAIN_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)  # Python reads 1_0 as ten
_LEAST, _MOST = 4.0, 125.0  # of a generated eGFR
_DRAWS = 24


@dataclass(frozen=True, kw_only=True)
class Patient:
    """A patient's findings, eGFR and diagnosis; `visits` are the eGFRs of earlier visits and the last."""

    id: str | int
    findings: Mapping[str, Any]
    egfr: float
    diagnosis: Diagnosis | None
    visits: tuple[Mapping[str, float], ...] = ()

    @property
    def stage(self) -> int:
        return stage_of(self.egfr)

    @property
    def sex(self) -> str | None:
        return self.findings["sex"]

    @property
    def age(self) -> float:
        return self.findings["age"]


@dataclass(frozen=True, kw_only=True)
class Patients:
    """Patients, and how many rows are none."""

    patients: tuple[Patient, ...]
    left_out: Mapping[str, int]
    sources: tuple[Source, ...] = ()


# -- generated -----------------------------------------------------------------------------------------------------


def generated(count: int, seed: int) -> Patients:
    """As many patients as asked for."""
    draws = (words(seed, 0, count, _DRAWS) >> np.uint64(11)) * 2.0**-53  # uniform on [0, 1)
    return Patients(patients=tuple(_patient(n + 1, draw) for n, draw in enumerate(draws.tolist())), left_out={})


def _patient(number: int, draw: Sequence[float]) -> Patient:
    age = 20 + int(draw[0] * 70)
    sex = "female" if draw[1] < 0.5 else "male"
    low, high = next(bounds for share, bounds in _STAGES if draw[2] < share)
    creatinine = creatinine_for(low + draw[3] * (high - low), age, sex)
    value = _known(creatinine, age, sex)
    impaired = stage_of(value) >= 3
    ill = impaired != (draw[4] < _CONFLICTS)
    findings = {
        **dict.fromkeys(COLUMNS),
        "age": age,
        "sex": sex,
        "creatinine": creatinine,
        "blood_pressure": round(70 + 20 * draw[5] + (10 if ill else 0)),
        "urine_albumin": 1 + int(draw[6] * 4) if ill else 0,
        "haemoglobin": round(15 - (2.5 if sex == "female" else 1.0) * draw[7] - (3.0 if impaired else 0.0), 1),
        "urea": round(25 + 15 * draw[8] + max(60 - value, 0) * 1.5),
        "potassium": round(4.0 + 0.8 * draw[9] + (0.6 if value < 30 else 0.0), 1),
        "hypertension": "yes" if draw[10] < (0.7 if ill else 0.1) else "no",
        "diabetes": "yes" if draw[11] < (0.5 if ill else 0.05) else "no",
    }
    return Patient(
        id=f"p{number:06d}",
        findings=findings,
        egfr=value,
        diagnosis="ckd" if ill else "notckd",
        visits=_visits(value, age, sex, draw[12:]),
    )


def _visits(last: float, age: int, sex: str, draw: Sequence[float]) -> tuple[Mapping[str, float], ...]:
    """Creatinine and eGFR of visits half a year apart: falling, rising, hardly changing, or to and fro."""
    shares = list(accumulate(0.5 + each for each in draw[2:5]))
    path = [share / shares[-1] for share in shares]
    size = 8 + 32 * draw[1]
    if draw[0] < 0.50:
        moves = [-size * part for part in path]
    elif draw[0] < 0.80:
        moves = [size * part for part in path]
    elif draw[0] < 0.90:
        moves = [9 * (draw[1] - 0.5) * part for part in path]
    else:
        moves = [size * part * (1 if draw[5] < 0.4 else -1) for part in (0.5, -0.2, 0.7)]
    values = []
    for month, move in zip(MONTHS, (0.0, *moves), strict=True):
        creatinine = creatinine_for(min(max(last - moves[-1] + move, _LEAST), _MOST), age, sex)
        values.append({"month": month, "creatinine": creatinine, "egfr": _known(creatinine, age, sex)})
    return tuple(values)


def _known(creatinine: float, age: float, sex: str) -> float:
    value = egfr(creatinine, age, sex)
    assert value is not None
    return value


# -- read ----------------------------------------------------------------------------------------------------------


def read_patients(data: DataSpec, *, diagnosed: bool) -> Patients:
    """The patients of a table with the columns of UCI's; `diagnosed` leaves out those without a diagnosis."""
    records = data.read()
    columns = {name: _cells(records, column) for name, column in COLUMNS.items() if _is_there(records, name, column)}
    columns["sex"] = _cells(records, "sex") if "sex" in records else [None] * len(records)
    diagnoses = _diagnoses(records, needed=diagnosed)
    ids: Sequence[str | int] = ids_of(records, "id") if "id" in records else range(1, len(records) + 1)
    left_out: Counter[str] = Counter()
    patients = []
    for row in range(len(records)):
        findings = {**dict.fromkeys(COLUMNS), **{name: cells[row] for name, cells in columns.items()}}
        age, creatinine = _number(findings["age"]), _number(findings["creatinine"])
        value = egfr(creatinine, age or 0, findings["sex"])
        if value is None or age is None:
            left_out["no creatinine above 0" if value is None else "no age"] += 1
            continue
        if diagnosed and diagnoses[row] is None:
            left_out["no diagnosis"] += 1
            continue
        patients.append(Patient(id=ids[row], findings=findings, egfr=value, diagnosis=diagnoses[row]))
    return Patients(patients=tuple(patients), left_out=dict(left_out), sources=tuple(records.sources))


def _is_there(records: Records, name: str, column: str) -> bool:
    """True if a table has a column; age and creatinine must be there."""
    if column in records:
        return True
    if name in ("age", "creatinine"):
        raise InputError(records.lacks(column, "eGFR"))
    return False


def _cells(records: Records, column: str) -> list[Any]:
    """The values of a column: texts without white space around them, numbers as numbers, None for `?`."""
    return [_cleaned(value) for value in values_of(records, column)]


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        value = value.strip()
        if value.casefold() in ("", "?", "nan"):
            return None
        if not _PLAIN_NUMBER.fullmatch(value):
            return value
        value = float(value)
    if isinstance(value, float):
        return None if not isfinite(value) else int(value) if value.is_integer() else value
    return value


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _diagnoses(records: Records, *, needed: bool) -> list[Diagnosis | None]:
    """The diagnosis of every row; anything but ckd, notckd or nothing is an error."""
    if "classification" not in records:
        if needed:
            raise InputError(records.lacks("classification", "a diagnosis"))
        return [None] * len(records)
    found: list[Diagnosis | None] = []
    for row, cell in enumerate(_cells(records, "classification")):
        diagnosis = _DIAGNOSES.get(cell.casefold()) if isinstance(cell, str) else None
        if cell is not None and diagnosis is None:
            file, line = records.where(row)
            raise InputError("ckd or notckd is expected", file=file, line=line, field="classification")
        found.append(diagnosis)
    return found
