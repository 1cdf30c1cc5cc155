"""Is everything there that a run-spec needs? Looked at before the first paid call.

spec, data, strategies, metrics and rules; keys in the environment; disk; every backend: reachable, the model
present, log-probabilities there if they are wanted
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from steelyard.errors import BackendError, SteelyardError, counted
from steelyard.ground.loops import Loop
from steelyard.runner.backends import Backend, Finding
from steelyard.runner.run import Prepared, prepare
from steelyard.runner.spec import SpecFile

Level = Literal["ok", "warning", "problem"]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """One thing that was looked at; `exit_code` is what a problem means to a program."""

    about: str
    level: Level
    text: str
    model: str = ""
    exit_code: int = 0


def examined(
    file: SpecFile,
    environment: Mapping[str, str],
    *,
    root: Path | str | None = None,
    tenant: str | None = None,
    domain: str | None = None,
) -> list[Diagnosis]:
    """Everything that can be said of a spec before it is run; what is wrong is a diagnosis, too."""
    try:
        prepared = prepare(file, environment, root=root, tenant=tenant, domain=domain)
    except SteelyardError as problem:
        return [Diagnosis(about="spec", level="problem", text=str(problem), exit_code=problem.exit_code)]
    plan = prepared.plan
    found = [
        Diagnosis(about="spec", level="ok", text=counted(plan.count, "request")),
        Diagnosis(about="data", level="ok", text=f"{counted(len(plan.items), 'item')} of {plan.task.name}"),
        *(Diagnosis(about="data", level="warning", text=warning) for warning in plan.warnings),
        *(
            Diagnosis(about="data", level="warning", text=f"left out: {counted(count, 'row')}, {why}")
            for why, count in plan.left_out.items()
        ),
        Diagnosis(about="disk", level="ok", text="there is room for the replies"),
    ]
    with Loop() as loop:
        return found + loop.run(_models(prepared))


async def _models(prepared: Prepared) -> list[Diagnosis]:
    """What the backends say of their models, all at the same time."""
    backends, wants = prepared.backends, prepared.plan.spec.inference.logprobs
    async with AsyncExitStack() as entered:
        unusable: dict[int, Sequence[Finding]] = {}
        for backend in {id(each): each for each in backends.values()}.values():
            try:
                await entered.enter_async_context(backend)
            except BackendError as problem:
                unusable[id(backend)] = [Finding(about="model", level="problem", text=str(problem))]
        looks = await asyncio.gather(
            *(_looked_at(backend, name, unusable.get(id(backend))) for name, backend in backends.items())
        )
    return [_diagnosis(name, finding, wants) for name, found in zip(backends, looks, strict=True) for finding in found]


async def _looked_at(backend: Backend, model: str, unusable: Sequence[Finding] | None) -> Sequence[Finding]:
    if unusable is not None:
        return unusable
    try:
        return await backend.check(model)
    except BackendError as problem:
        return [Finding(about="server", level="problem", text=str(problem))]


def _diagnosis(model: str, finding: Finding, wants_logprobs: bool) -> Diagnosis:
    """A finding about a model; that there are no log-probabilities is a problem where they are wanted, else a fact."""
    if finding.about == "logprobs" and finding.level == "warning":
        said = finding.text if wants_logprobs else f"{finding.text}, and the spec wants none"
        finding = replace(finding, level="problem" if wants_logprobs else "ok", text=said)
    code = BackendError.exit_code if finding.level == "problem" else 0
    return Diagnosis(about=finding.about, level=finding.level, text=finding.text, model=model, exit_code=code)
