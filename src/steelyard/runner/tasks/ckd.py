"""Chronic kidney disease: is it there, in which stage, and did it progress.

    ckd_detection    ckd or notckd, from age, sex and routine laboratory findings
    ckd_staging      the KDIGO stage of eGFR, 1 to 5
    ckd_progression  from the first to the last of four visits: progressed, the stage became worse; stable, it is the
                     same; improved, it became better

All three may be declined, and whether they should be is known (`kidneys` has the rules): an eGFR near a threshold, a
diagnosis that the eGFR does not bear out (not in staging), a trajectory that says little. In staging and detection the
one eGFR decides; in progression those of the first and the last visit do, and the diagnosis on file is compared with
the stage at the last. The reasons are kept as `deferral_reason`, joined by ";", or "none".

Patients are generated from a seed, or read from the UCI table (`patients`); that has one visit each, so progression is
generated only. eGFR and stage are computed from the values that are shown. Sex other than female uses the constants
for men, which the column `egfr_constants` says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.errors import UsageError
from steelyard.runner.tasks.contract import DataSpec, Item, Items, Label, sampled, tasks, too_few
from steelyard.runner.tasks.kidneys import STAGES, constants_for, reasons_to_defer, stage_of
from steelyard.runner.tasks.patients import GENERATED, Patient, generated, read_patients
from steelyard.runner.tasks.prompts import Prompt, shipped

ADULT = 18
_ROMAN = ("i", "ii", "iii", "iv", "v")


@dataclass(frozen=True, kw_only=True)
class CkdTask:
    """A question about patients' kidneys."""

    name: str
    about: str
    labels: tuple[Label, ...]
    spellings: Mapping[str, Label] = field(default_factory=dict)
    item: Callable[[Patient], Item]
    from_table: bool = True  # a table with one visit per patient is enough
    diagnosed: bool = False  # a patient without a diagnosis is no item
    may_decline: bool = True
    range: tuple[float, float] | None = None
    direction: str | None = None

    @property
    def prompt(self) -> Prompt:
        return shipped(__package__, self.name)

    def items(self, data: DataSpec | None, *, size: int | None, seed: int) -> Items:
        """Patients of a table, at most `size` of them; or as many generated ones, by default 200."""
        if data is not None and not self.from_table:
            raise UsageError(f"{self.name} has several visits per patient, which are generated; leave `data` out")
        if size is not None and size < 1:
            raise UsageError("`size=` is at least 1")
        if data is None:
            patients = generated(GENERATED if size is None else size, seed)
        else:
            patients = read_patients(data, diagnosed=self.diagnosed)
        items = sampled([self.item(patient) for patient in patients.patients], size, seed)
        warnings = _warnings(items) + too_few(items, size, "patients")
        return Items(items=items, left_out=patients.left_out, warnings=warnings, sources=patients.sources)

    def background(self) -> str:
        return shipped(__package__, f"{self.name}_background").text({})

    def context(self) -> str:
        return shipped(__package__, f"{self.name}_context").text({})

    def question(self, item: Item) -> str:
        return self.prompt.text(item.fields)

    def shown(self, item: Item) -> Mapping[str, Any]:
        return self.prompt.shown(item.fields)


def _detection(patient: Patient) -> Item:
    return _item(patient, patient.diagnosis, reasons_to_defer([patient.egfr], patient.diagnosis))


def _staging(patient: Patient) -> Item:
    return _item(patient, patient.stage, reasons_to_defer([patient.egfr], None))


def _progression(patient: Patient) -> Item:
    values = [visit["egfr"] for visit in patient.visits]
    first, last = values[0], values[-1]
    change = stage_of(last) - stage_of(first)
    target = "progressed" if change > 0 else "improved" if change < 0 else "stable"
    reasons = reasons_to_defer([first, last], patient.diagnosis, values)
    return _item(patient, target, reasons, egfr=last, visits=patient.visits, diagnosis=patient.diagnosis)


def _item(
    patient: Patient, target: Label | None, reasons: list[str], *, egfr: float | None = None, **shown: Any
) -> Item:
    """A patient as an item; `egfr` is the one that its stage is of, where that is not the patient's."""
    value = patient.egfr if egfr is None else egfr
    stated = "" if patient.sex else " (sex not recorded)"
    return Item(
        id=patient.id,
        fields={**patient.findings, "egfr": value, **shown},
        target=target,
        cluster=patient.id,
        groups={"sex": patient.sex, "age": _age_band(patient.age)},
        should_abstain=bool(reasons),
        more={
            "egfr": value,
            "ckd_stage": stage_of(value),
            "egfr_constants": constants_for(patient.sex) + stated,
            "deferral_reason": ";".join(reasons) or "none",
        },
    )


def _age_band(age: float) -> str:
    return next((band for limit, band in ((18, "0-17"), (45, "18-44"), (65, "45-64")) if age < limit), "65+")


def _warnings(items: tuple[Item, ...]) -> tuple[str, ...]:
    said = []
    children = sum(item.fields["age"] < ADULT for item in items)
    if children:
        said.append(f"{children:,} of {len(items):,} patients are under {ADULT}, for whom CKD-EPI 2021 is not meant")
    unknown = sum(item.fields["sex"] is None for item in items)
    if unknown:
        said.append(f"the sex of {unknown:,} of {len(items):,} patients is not recorded; eGFR is that of men")
    return tuple(said)


tasks.add(
    "ckd_detection",
    CkdTask(
        name="ckd_detection",
        about="does a patient have chronic kidney disease: ckd or notckd",
        labels=("ckd", "notckd"),
        spellings={"not ckd": "notckd", "no ckd": "notckd", "non-ckd": "notckd", "not_ckd": "notckd"},
        item=_detection,
        diagnosed=True,
    ),
)
tasks.add(
    "ckd_staging",
    CkdTask(
        name="ckd_staging",
        about="the KDIGO stage of a patient's kidney function, 1 to 5",
        labels=STAGES,
        spellings={
            f"{word}{spelt}": stage
            for stage in STAGES
            for word in ("stage ", "stage g", "g")
            for spelt in (str(stage), *((f"{stage}a", f"{stage}b") if stage == 3 else ()))
        }
        | {f"stage {roman}": stage for stage, roman in zip(STAGES, _ROMAN, strict=True)}
        | {"3a": 3, "3b": 3},
        item=_staging,
    ),
)
tasks.add(
    "ckd_progression",
    CkdTask(
        name="ckd_progression",
        about="did a patient's kidney disease progress over four visits: progressed, stable or improved",
        labels=("progressed", "stable", "improved"),
        item=_progression,
        from_table=False,
    ),
)
