"""A matrix of runs: the variants of a spec, run one after the other, each with its log; then compared, then promoted.

    workflow: Triage
    on_failure: continue            # or stop
    variants:
      - name: small
        evaluate: {files: [answers-small.jsonl], cluster: patient, metrics: [accuracy, aurc]}
        labels: {model: small}
      - name: large
        command: [python, ask.py, --model, large]
        environment: {TEMPERATURE: "0"}
        timeout: 600
    compare: {metric: accuracy}
    promote: {metric: accuracy, eps: 0.001, require_significant: true}

A command finds the place to save to in STEELYARD_ROOT, STEELYARD_TENANT, STEELYARD_WORKFLOW and STEELYARD_VARIANT.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from steelyard.errors import SteelyardError, StorageError, UsageError, printable
from steelyard.registry import closest
from steelyard.runs.index import Index, Listed
from steelyard.runs.keeping import Opened
from steelyard.runs.layout import Scope, checked, inside
from steelyard.runs.pointers import Pointers
from steelyard.runs.ranking import PROMOTE, Choice, Ranked, compared, decide, ranked
from steelyard.strict_yaml import load_yaml

_UNKNOWN = re.compile(r"Object contains unknown field `(.+?)`( - at `(.+)`)?")


class Evaluate(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What `steelyard evaluate` is given."""

    files: list[str]
    metrics: list[str] = []
    by: list[str] = []
    pool: list[str] = []
    cluster: str | None = None
    where: dict[str, str] = {}
    map: dict[str, str] = {}
    task_file: str | None = None
    resamples: int | None = None
    seed: int | None = None


class Variant(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    command: list[str] | None = None
    evaluate: Evaluate | None = None
    environment: dict[str, str] = {}
    labels: dict[str, str] = {}
    timeout: float | None = None


class CompareSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    metric: str


class PromoteSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    metric: str
    eps: float = 1e-6
    require_significant: bool = False
    profile: str = "default"


class Spec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A matrix spec."""

    variants: list[Variant]
    workflow: str = "matrix"
    on_failure: str = "stop"
    compare: CompareSpec | None = None
    promote: PromoteSpec | None = None


@dataclass(frozen=True)
class Plan:
    """A spec that was read and checked, and the text it came from."""

    spec: Spec
    path: Path
    text: bytes

    @property
    def document(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self.spec))

    def arguments(self, variant: Variant) -> list[str]:
        """The command line of a variant."""
        if variant.command is not None:
            return variant.command
        assert variant.evaluate is not None
        return ["steelyard", *_evaluate_arguments(variant.evaluate)]


@dataclass(frozen=True)
class Done:
    """How one variant ended."""

    name: str
    status: str  # succeeded, failed, timed out or skipped
    exit_code: int | None
    seconds: float
    log: Path | None


@dataclass(frozen=True)
class Result:
    """A matrix that was run."""

    folder: Path
    variants: tuple[Done, ...]
    rows: tuple[Ranked, ...] = ()
    metric: str | None = None
    choice: Choice | None = None
    promoted_by: str = ""
    problems: tuple[str, ...] = field(default_factory=tuple)

    @property
    def succeeded(self) -> bool:
        return all(v.status == "succeeded" for v in self.variants) and not self.problems


def load(path: Path) -> Plan:
    """A spec from its file; an unknown key is an error with a hint."""
    raw = load_yaml(path)
    try:
        spec = msgspec.convert(raw, Spec)
    except msgspec.ValidationError as problem:
        raise UsageError(f"{printable(path)}: {_explained(str(problem))}") from None
    _check(spec, path)
    return Plan(spec, path, path.read_bytes())


def run(
    plan: Plan,
    scope: Scope,
    *,
    progress: Callable[[float], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Run every variant, then compare and promote what succeeded."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    folder = inside(scope.root, scope.folder / "matrices" / f"{plan.spec.workflow}-{stamp}")
    try:
        folder.mkdir(parents=True)
        (folder / "spec.yaml").write_bytes(plan.text)  # as it was written, comments included
    except OSError as problem:
        raise StorageError(f"cannot write {printable(folder)}: {problem.strerror}") from None
    with Index(scope.root) as index:
        before = {run.run_id for run in index.runs()}
    done: list[Done] = []
    stopped = False
    for number, variant in enumerate(plan.spec.variants):
        if stopped:
            done.append(Done(variant.name, "skipped", None, 0.0, None))
            continue
        done.append(_run_variant(plan, variant, scope, folder / f"{number + 1:02d}-{variant.name}.log"))
        say(f"{variant.name}: {done[-1].status} after {done[-1].seconds:.1f} s")
        stopped = done[-1].status != "succeeded" and plan.spec.on_failure == "stop"
        if progress is not None:
            progress((number + 1) / len(plan.spec.variants))
    return _finished(plan, scope, folder, tuple(done), before)


def _run_variant(plan: Plan, variant: Variant, scope: Scope, log: Path) -> Done:
    environment = {
        **os.environ,
        **variant.environment,
        "STEELYARD_ROOT": str(scope.root),
        "STEELYARD_TENANT": scope.tenant or "",
        "STEELYARD_WORKFLOW": plan.spec.workflow,
        "STEELYARD_VARIANT": variant.name,
    }
    command = plan.arguments(variant)
    if variant.evaluate is not None:
        labels = {"variant": variant.name, **variant.labels}
        command = [*_steelyard(), *command[1:], "--save", "--workflow", plan.spec.workflow, "--domain", scope.domain]
        command += [part for key, value in labels.items() for part in ("--label", f"{key}={value}")]
    started = time.monotonic()
    with log.open("wb") as output:
        try:
            finished = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=plan.path.resolve().parent,
                timeout=variant.timeout,
                check=False,
            )
            code, status = finished.returncode, "succeeded" if finished.returncode == 0 else "failed"
        except subprocess.TimeoutExpired:
            code, status = None, "timed out"
        except OSError as problem:
            output.write(f"{problem.strerror or type(problem).__name__}\n".encode())
            code, status = None, "failed"
    return Done(variant.name, status, code, time.monotonic() - started, log)


def _finished(plan: Plan, scope: Scope, folder: Path, done: tuple[Done, ...], before: set[str]) -> Result:
    """Compare the new runs, and promote the best, where the spec asks for it."""
    spec = plan.spec
    problems: list[str] = []
    rows: list[Ranked] = []
    choice = None
    with Index(scope.root) as index:
        mine: list[Listed] = [r for r in index.runs(domain=scope.domain) if r.tenant == scope.tenant]
    new = [r for r in mine if r.run_id not in before]
    try:
        if spec.compare is not None and new:
            rows = compared(ranked(new, spec.compare.metric), spec.compare.metric, None)
        if spec.promote is not None and new:
            pointers = Pointers(scope)
            held = pointers.get(spec.promote.metric, spec.promote.profile).run_id
            active = next((r for r in mine if r.run_id == held), None)
            choice = decide(
                new,
                spec.promote.metric,
                active,
                eps=spec.promote.eps,
                require_significant=spec.promote.require_significant,
            )
            if choice.action == PROMOTE:
                opened = Opened.at(choice.candidate.folder)
                pointers.promote(opened, spec.promote.metric, spec.promote.profile, reason=choice.reason)
    except SteelyardError as problem:
        problems.append(str(problem))
    metric = spec.compare.metric if spec.compare else None
    promoted_by = spec.promote.metric if spec.promote else ""
    return Result(folder, done, tuple(rows), metric, choice, promoted_by, tuple(problems))


def _steelyard() -> list[str]:
    """The command that this process is, so that a matrix needs nothing on the path."""
    script = Path(sys.executable).with_name("steelyard")
    if script.exists():
        return [str(script)]
    found = shutil.which("steelyard")
    return [found] if found else [sys.executable, "-c", "from steelyard.cli.main import main; main()"]


def _evaluate_arguments(asked: Evaluate) -> list[str]:
    found = ["evaluate", *asked.files]
    lists: Mapping[str, list[str]] = {"--metric": asked.metrics, "--by": asked.by, "--pool": asked.pool}
    for option, values in lists.items():
        found += [part for value in values for part in (option, value)]
    for option, pairs in (("--where", asked.where), ("--map", asked.map)):
        found += [part for key, value in pairs.items() for part in (option, f"{key}={value}")]
    single = {
        "--cluster": asked.cluster,
        "--task-file": asked.task_file,
        "--resamples": asked.resamples,
        "--seed": asked.seed,
    }
    for option, given in single.items():
        found += [option, str(given)] if given is not None else []
    return found


def _check(spec: Spec, path: Path) -> None:
    if not spec.variants:
        raise UsageError(f"{printable(path)}: variants is empty")
    if spec.on_failure not in ("stop", "continue"):
        raise UsageError(f"{printable(path)}: on_failure is stop or continue")
    checked("workflow", spec.workflow)
    seen: set[str] = set()
    for variant in spec.variants:
        checked("variant", variant.name)
        if variant.name in seen:
            raise UsageError(f"{printable(path)}: the variant '{variant.name}' stands twice")
        seen.add(variant.name)
        if (variant.command is None) == (variant.evaluate is None):
            raise UsageError(f"{printable(path)}: the variant '{variant.name}' needs either command or evaluate")
        if variant.command is not None and not variant.command:
            raise UsageError(f"{printable(path)}: the command of '{variant.name}' is empty")
        if variant.timeout is not None and not variant.timeout > 0:
            raise UsageError(f"{printable(path)}: the timeout of '{variant.name}' is above 0 seconds")


_KEYS = [f for kind in (Spec, Variant, Evaluate, CompareSpec, PromoteSpec) for f in kind.__struct_fields__]


def _explained(problem: str) -> str:
    """A validation problem, with what may have been meant by an unknown key."""
    found = _UNKNOWN.match(problem)
    if found is None:
        return printable(problem)
    near = closest(found.group(1), list(dict.fromkeys(_KEYS)))
    hint = f"; did you mean '{near}'?" if near else ""
    return f"unknown key '{printable(found.group(1))}'{printable(found.group(2) or '')}{hint}"
