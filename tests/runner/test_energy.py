"""Energy: CodeCarbon's numbers are what its own parts make, a run adds them up, and says of whom they are."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import steelyard as sy
from steelyard.errors import UsageError
from steelyard.ground.journal import Journal, Rows
from steelyard.runner import energy
from steelyard.runner.asking import Asking, opened_backends
from steelyard.runner.energy import Meter, intensities, meter_of, outside, scope
from steelyard.runner.plan import planned
from steelyard.runner.recorded import Standing, recorded
from steelyard.runner.spec import Model, load_spec
from steelyard.runner.wire import run_result

pytest.importorskip("codecarbon")

MODELS = """
def here(item, prompt):
    return {"text": "Answer: ckd", "input_tokens": 1000, "output_tokens": 500}
"""


def spec_in(folder: Path, **more: Any) -> Path:
    (folder / "models.py").write_text(MODELS)
    spec = {
        "id": "used",
        "task": "ckd_detection",
        "sample_size": 12,
        "models": [{"name": "here", "backend": "callable", "options": {"function": "models.py:here"}}],
        "inference": {"format": "text"},
        "metrics": ["accuracy", "f1_macro", "kwh", "co2_kg", "duration_s", "gco2_per_f1_point"],
        "sustainability": {"codecarbon": True, "country_iso": "DEU"},
        **more,
    }
    (folder / "spec.yaml").write_text(json.dumps(spec))
    return folder / "spec.yaml"


class Fixed(Meter):
    """A meter of which the readings are known."""

    readings: tuple[float, ...] = ()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        return None

    @property
    def used(self) -> Any:
        return {"kwh": self.readings[-1], "co2_kg": self.readings[-1] / 2} if self.readings else None


def test_codecarbons_numbers_are_what_its_own_parts_make() -> None:
    """Energy is the sum of its parts, and emissions are energy × the intensity of the country's electricity."""

    async def busy() -> Meter:
        async with Meter("DEU") as meter:
            ends = time.process_time() + 0.5
            while time.process_time() < ends:
                await asyncio.sleep(0)
        return meter

    meter = asyncio.run(busy())
    total, used = meter.total, meter.used
    assert used == {"kwh": total.energy_consumed, "co2_kg": total.emissions}
    assert total.energy_consumed == pytest.approx(total.cpu_energy + total.gpu_energy + total.ram_energy)
    assert total.emissions == pytest.approx(total.energy_consumed * intensities()["DEU"][1] / 1000)
    assert (total.tracking_mode, total.country_iso_code, total.pue) == ("process", "DEU", 1.0)
    assert total.cpu_energy > 0
    assert total.ram_energy > 0


BURNING = """
import sys, time
sys.stdin.readline()
ends = time.process_time() + 1
while time.process_time() < ends:
    pass
print("done", flush=True)
sys.stdin.read()
"""


def test_processes_that_this_one_starts_are_counted() -> None:
    """A second of computing is as much energy in a child as here, however long it takes on a busy machine."""

    async def here() -> Meter:
        async with Meter("DEU") as meter:
            ends = time.process_time() + 1
            while time.process_time() < ends:
                pass
        return meter

    async def in_a_child(child: subprocess.Popen[str]) -> Meter:
        assert child.stdin is not None
        assert child.stdout is not None
        async with Meter("DEU") as meter:  # the child is there already: what came before does not count
            child.stdin.write("begin\n")
            child.stdin.flush()
            assert child.stdout.readline() == "done\n"
        child.stdin.close()
        return meter

    own = asyncio.run(here()).total.cpu_energy
    command = [sys.executable, "-c", BURNING]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        childs = asyncio.run(in_a_child(child)).total.cpu_energy
    assert 0.5 < childs / own < 2


def test_a_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    run = sy.run(spec_in(tmp_path), root=tmp_path, environment={})
    facts = run.evaluation.facts
    (row,) = [row for row in Rows(run.journal) if "energy" in row]
    assert set(facts) == {"wall_seconds", "kwh", "co2_kg"}
    assert facts["kwh"] == row["energy"]["kwh"] > 0
    assert facts["co2_kg"] == pytest.approx(facts["kwh"] * intensities()["DEU"][1] / 1000)
    assert {run.evaluation[name].value for name in ("kwh", "co2_kg", "duration_s")} == set(facts.values())
    f1 = run.evaluation["f1_macro"].value
    assert f1
    assert run.evaluation["gco2_per_f1_point"].value == pytest.approx(1000 * facts["co2_kg"] / (100 * f1))
    assert run_result(run)["evaluation"]["facts"] == dict(facts)
    said = "energy is that of this process and of those that it started, by CodeCarbon's estimate"
    assert said in run.evaluation.warnings
    assert list(Path.cwd().iterdir()) == []  # CodeCarbon leaves a file where it is let


def test_energy_is_summed_over_every_time_a_run_was_taken_up(tmp_path: Path) -> None:
    """The last reading of each time counts, what was cut off before its first reading is said."""
    plan = planned(load_spec(spec_in(tmp_path)))
    for session, readings in enumerate([(1.0, 2.0), (0.5,), ()], 1):
        with Journal(tmp_path / "journal") as journal:
            meter = Fixed("DEU")
            for reading in readings[:-1]:
                journal.append({"energy": {"kwh": reading, "co2_kg": reading / 2}, "session": session})
            meter.readings = readings
            ask = bytearray(1 if number // 4 != session - 1 else 0 for number in range(plan.count))
            tallies = Standing.of(plan, tmp_path / "journal").tallies
            asyncio.run(
                Asking(
                    plan=plan,
                    backends=opened_backends(plan, {}),
                    journal=journal,
                    cache=None,
                    is_done=ask,
                    tallies=tallies,
                    session=session,
                    meter=meter,
                ).run()
            )
    standing = Standing.of(plan, tmp_path / "journal")
    assert (standing.is_complete, standing.sessions) == (True, 3)
    records = recorded(standing)
    assert records.task.facts["kwh"] == 2.5
    assert records.task.facts["co2_kg"] == 1.25
    assert any("not measured in 1 of the 3 times" in warning for warning in records.warnings)


def test_replies_from_the_cache_leave_no_energy_to_speak_of(tmp_path: Path) -> None:
    plan = planned(load_spec(spec_in(tmp_path)))
    parsed = {"outcome": "answered", "prediction": "ckd", "reasoning_chars": 0}
    with Journal(tmp_path / "journal") as journal:
        for number in range(plan.count):
            reply = {"text": "x", "cached": number == 3}
            row = {
                "key": number,
                "model": "here",
                "strategy": "zero-shot",
                "item": plan.place(number).item.id,
                "repeat": 1,
                "reply": reply,
                "parsed": parsed,
                "cost": 0.5,
                "session": 1,
                "at": 1.0,
            }
            journal.append(row)
        journal.append({"energy": {"kwh": 1.0, "co2_kg": 0.5}, "session": 1})
    records = recorded(Standing.of(plan, tmp_path / "journal"))
    assert not records.task.facts
    assert "energy and time of the whole are not stated, because replies came from the cache" in records.warnings
    assert records.to_pandas().cost.isna().tolist() == [number == 3 for number in range(plan.count)]


def test_models_that_others_serve_are_outside() -> None:
    models = [
        Model(name="mine", backend="callable"),
        Model(name="file", backend="llama_cpp"),
        Model(name="served", backend="openai"),
        Model(name="local", backend="ollama"),
        Model(name="old", backend="replay"),
        Model(name="far", backend="anthropic"),
    ]
    assert outside(models) == ("served", "local", "old", "far")
    assert scope(models).endswith("outside it, because others compute them: served, local, old, far")
    assert "outside" not in scope(models[:2])


@pytest.mark.parametrize(
    ("country", "problem"),
    [
        ("DEUT", "did you mean DEU, Germany?"),
        ("deu", "did you mean DEU, Germany?"),
        ("Germany", "did you mean DEU, Germany?"),
        ("de", "did you mean DEU, Germany?"),
        ("GER", "did you mean DEU, Germany?"),
        ("niger", "did you mean NER, Niger?"),
        ("1", "three letters are expected"),
    ],
)
def test_an_unknown_country_is_refused(tmp_path: Path, country: str, problem: str) -> None:
    path = spec_in(tmp_path, sustainability={"codecarbon": True, "country_iso": country})
    with pytest.raises(UsageError, match=r"spec.yaml:1: sustainability.country_iso: ") as caught:
        sy.run(path, root=tmp_path, environment={})
    assert problem in str(caught.value)
    assert not (tmp_path / "results").exists()


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install \"steelyard\[energy\]\""):
        sy.run(spec_in(tmp_path), root=tmp_path, environment={})
    assert meter_of(load_spec(spec_in(tmp_path, sustainability={"codecarbon": False}))) is None
