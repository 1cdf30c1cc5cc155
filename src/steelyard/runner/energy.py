"""How much energy was used while models were asked: measured by CodeCarbon, offline, and nothing is sent or written.

    sustainability: {codecarbon: true, country_iso: DEU}

What is counted is this process and those that it started, a model of the backend `llama_cpp` among them; the processor
by the time that they computed, memory by CodeCarbon's constant for this machine, graphics cards whole. A model that
another process or another machine serves is outside: which ones, the results say. Models are asked at the same time by
one process, so the numbers are of a run, not of a model. A run that is taken up again adds to what it used before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from steelyard.errors import printable
from steelyard.registry import closest
from steelyard.runner.backends import backends
from steelyard.runner.spec import Model, SpecFile

EVERY = 15  # seconds between two measurements


class Meter:
    """CodeCarbon's tracker; `used` is what it has measured since it was entered, None before the first measurement."""

    def __init__(self, country_iso: str) -> None:
        self.country_iso = country_iso
        self.total: Any = None  # CodeCarbon's own summary

    async def __aenter__(self) -> Self:
        self._tracker = await asyncio.to_thread(self._started)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self._tracker.stop)

    @property
    def used(self) -> Mapping[str, float] | None:
        """Energy and emissions so far."""
        total = self.total
        return None if total is None else {"kwh": float(total.energy_consumed), "co2_kg": float(total.emissions)}

    def out(self, total: Any, _: Any) -> None:
        """What CodeCarbon calls with its summary, at the end."""
        self.total = total

    live_out = out  # and now and then

    def task_out(self, *_: Any) -> None:
        """What CodeCarbon calls with its summaries of tasks: there are none."""

    def exit(self) -> None:
        """What CodeCarbon calls when it has ended."""

    def _started(self) -> Any:
        from codecarbon import OfflineEmissionsTracker

        logging.getLogger("codecarbon").setLevel(logging.CRITICAL)  # it speaks before it knows its level
        tracker = OfflineEmissionsTracker(
            country_iso_code=self.country_iso,
            tracking_mode="process",
            force_mode_cpu_load=True,  # the processor's own counters know no processes
            measure_power_secs=EVERY,
            api_call_interval=1,
            output_methods=[],
            output_handlers=[self],
            log_level="critical",
            allow_multiple_runs=True,
            # what files and variables of CodeCarbon may say otherwise
            cloud_provider=None,
            cloud_region=None,
            region=None,
            emissions_endpoint=None,
            electricitymaps_api_token=None,
            force_carbon_intensity_g_co2e_kwh=None,
            force_cpu_power=None,
            force_ram_power=None,
            pue=1.0,
        )
        tracker.start()
        return tracker


def meter_of(file: SpecFile) -> Meter | None:
    """The meter that a spec asks for; UsageError where it cannot be had."""
    asked = file.spec.sustainability
    if asked is None or not asked.codecarbon or asked.country_iso is None:
        return None
    if find_spec("codecarbon") is None:
        raise file.problem(
            ("sustainability", "codecarbon"), 'CodeCarbon is not installed: pip install "steelyard[energy]"'
        )
    _check_country(file, asked.country_iso)
    return Meter(asked.country_iso)


def intensities() -> dict[str, tuple[str, float]]:
    """By code, the name of every country that CodeCarbon knows, and its grams of CO₂ for a kilowatt-hour."""
    from codecarbon.input import DataSource

    source: Any = DataSource  # it says nothing of its types
    known = source().get_global_energy_mix_data()
    return {code: (str(of["country_name"]), float(of["carbon_intensity"])) for code, of in known.items()}


def _check_country(file: SpecFile, code: str) -> None:
    """Refuse a country that CodeCarbon does not know: it would take the mean of the world, and say nothing."""
    known = intensities()
    if code in known:
        return
    names = {each: name.casefold() for each, (name, _) in known.items()}
    begin = sorted((each for each in names if names[each].startswith(code.casefold())), key=lambda each: names[each])
    is_clear = len(begin) == 1 or (begin and names[begin[0]] == code.casefold())
    near = begin[0] if is_clear else closest(code.upper(), list(known))
    hint = f"did you mean {near}, {known[near][0]}?" if near else "three letters are expected, such as DEU"
    raise file.problem(("sustainability", "country_iso"), f"'{printable(code)}' is no country of CodeCarbon's; {hint}")


def outside(models: Sequence[Model]) -> tuple[str, ...]:
    """The names of the models that compute elsewhere, so that their energy is not counted."""
    return tuple(model.name for model in models if not getattr(backends[model.backend], "computes_here", False))


def scope(models: Sequence[Model]) -> str:
    """What must be said of the energy of a run."""
    others = ", ".join(map(printable, outside(models)))
    counted = "energy is that of this process and of those that it started, by CodeCarbon's estimate"
    return f"{counted}; outside it, because others compute them: {others}" if others else counted
