"""A matrix of runs: the variants of a spec, run one after the other, each with its log; then compared, then promoted.

    workflow: Triage
    on_failure: continue            # or stop
    variants:
      - name: small
        evaluate: {files: [answers-small.jsonl], cluster: patient, metrics: [accuracy, aurc]}
        labels: {model: small}
      - name: large
        command: [python, ask.py, large]
        environment: {TEMPERATURE: "0"}
        timeout: 600
    compare: {metric: accuracy}
    promote: {metric: accuracy, eps: 0.001}        # require_significant: false decides by eps alone

A command finds the place to save to in STEELYARD_ROOT, STEELYARD_TENANT, STEELYARD_DOMAIN and STEELYARD_WORKFLOW; what
it saves is known by the labels `matrix` and `variant`, which `evaluate` takes from STEELYARD_MATRIX and
STEELYARD_VARIANT.
The spec is kept with the logs, so it must hold no secret: `$NAME` passes a variable on.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from steelyard.errors import SteelyardError, StorageError, UsageError, printable
from steelyard.ground.files import make_folders
from steelyard.ground.specs import read_spec
from steelyard.records.conditions import conditions
from steelyard.records.reading import Option, Reading, options_of
from steelyard.runs.deciding import Choice
from steelyard.runs.environment import NO_TENANT
from steelyard.runs.index import Index, RunEntry
from steelyard.runs.layout import DOMAIN, Scope, access, checked, inside
from steelyard.runs.metric_keys import known_key
from steelyard.runs.promotion import decided
from steelyard.runs.standing import Standing, compared, ranked

_SECRET = re.compile(r"(?i)key|token|secret|password|credential")


class EvaluateSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True, kw_only=True):
    """What `steelyard evaluate` is given, but for how files are read."""

    files: list[str]
    metrics: list[str] = []
    by: list[str] = []
    pool: list[str] = []
    resamples: int | None = None
    seed: int | None = None


_YAML: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("text", "column", "file"), (str | None, None)),
    **dict.fromkeys(("texts", "columns", "files"), (list[str], [])),
    "pairs": (dict[str, str], {}),
    "conditions": (dict[str, str | list[str]] | list[str] | str, {}),
    "flag": (bool, False),
}  # of every kind of option its type in YAML, and what it is where it is not given


def _field(name: str, option: Option) -> tuple[str, Any, Any]:
    kind, absent = _YAML[option.kind]
    return option.typed(name), Literal[option.one_of] | None if option.one_of else kind, absent


if TYPE_CHECKING:
    Evaluate = EvaluateSpec
else:
    Evaluate = msgspec.defstruct(
        "Evaluate",
        [_field(name, option) for name, option in options_of(Reading).items()],
        bases=(EvaluateSpec,),
        forbid_unknown_fields=True,
        frozen=True,
        kw_only=True,
    )


class Variant(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    name: str
    command: list[str] | None = None
    evaluate: Evaluate | None = None
    environment: dict[str, str] = {}
    labels: dict[str, str] = {}
    timeout: float | None = None


class CompareSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    metric: str
    better: Literal["higher", "lower"] | None = None  # of a metric that has no direction of its own


class PromoteSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    metric: str
    eps: float = 1e-6
    require_significant: bool = True  # false: by eps alone
    profile: str = "default"
    better: Literal["higher", "lower"] | None = None


class Spec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A matrix spec."""

    variants: list[Variant]
    workflow: str = "matrix"
    on_failure: str = "stop"
    compare: CompareSpec | None = None
    promote: PromoteSpec | None = None


CommandLine = Callable[[Variant, str, str], list[str]]


@dataclass(frozen=True)
class Plan:
    """A spec that was read and checked, and the text it came from."""

    spec: Spec
    path: Path
    text: bytes
    command_line: CommandLine

    @property
    def document(self) -> dict[str, Any]:
        return dict(msgspec.to_builtins(self.spec))

    def arguments(self, variant: Variant, domain: str = DOMAIN) -> list[str]:
        """The command line of a variant."""
        return variant.command or self.command_line(variant, self.spec.workflow, domain)


@dataclass(frozen=True, kw_only=True)
class VariantOutcome:
    """How one variant ended."""

    name: str
    status: str  # succeeded, failed, timed out or skipped
    exit_code: int | None
    seconds: float
    log: Path | None


@dataclass(frozen=True, kw_only=True)
class Result:
    """A matrix that was run."""

    folder: Path
    variants: tuple[VariantOutcome, ...]
    rows: tuple[Standing, ...] = ()
    metric: str | None = None
    better: str | None = None  # its direction, where the spec says one
    choice: Choice | None = None
    promoted_by: str = ""
    problems: tuple[str, ...] = field(default_factory=tuple)

    @property
    def succeeded(self) -> bool:
        return all(v.status == "succeeded" for v in self.variants) and not self.problems


def load(path: Path, command_line: CommandLine) -> Plan:
    """A spec from its file; an unknown key is an error with a hint.

    `command_line` makes the command of a variant that is to be evaluated, for a workflow and domain.
    """
    spec = read_spec(path, Spec)
    _check(spec, path)
    return Plan(spec, path, path.read_bytes(), command_line)


def run(
    plan: Plan,
    scope: Scope,
    environment: Mapping[str, str],
    *,
    program: Sequence[str],
    progress: Callable[[float], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:
    """Run every variant in this environment, then compare and promote what succeeded.

    `program` is what stands for the first word of the commands that this tool runs itself.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    name = f"{plan.spec.workflow}-{stamp}-{secrets.token_hex(3)}"
    own = [_environment(plan, variant, scope, environment, name) for variant in plan.spec.variants]
    folder = inside(scope.root, scope.folder / "matrices" / name)
    try:
        make_folders(folder, access(scope.root))
        (folder / "spec.yaml").write_bytes(plan.text)  # as it was written, comments included
    except OSError as problem:
        raise StorageError(f"cannot write {printable(folder)}: {problem.strerror}") from None
    done: list[VariantOutcome] = []
    stopped = False
    for number, variant in enumerate(plan.spec.variants):
        if stopped:
            done.append(VariantOutcome(name=variant.name, status="skipped", exit_code=None, seconds=0.0, log=None))
            continue
        done.append(
            _run_variant(
                plan.arguments(variant, scope.domain),
                variant,
                own[number],
                folder / f"{number + 1:02d}-{variant.name}.log",
                plan.path,
                program,
            )
        )
        say(f"{variant.name}: {done[-1].status} after {done[-1].seconds:.1f} s")
        stopped = done[-1].status != "succeeded" and plan.spec.on_failure == "stop"
        if progress is not None:
            progress((number + 1) / len(plan.spec.variants))
    return _finished(plan, scope, folder, tuple(done), name, stopped=stopped)


def _environment(
    plan: Plan, variant: Variant, scope: Scope, environment: Mapping[str, str], name: str
) -> dict[str, str]:
    """What a variant's process finds in its environment."""
    own = {}
    for key, value in variant.environment.items():
        if value.startswith("$") and value[1:] not in environment:
            raise UsageError(f"the variant '{variant.name}' wants {printable(value)}, which is not set")
        own[key] = environment[value[1:]] if value.startswith("$") else value
    return {
        **environment,
        **own,
        "STEELYARD_ROOT": str(scope.root),
        "STEELYARD_TENANT": scope.tenant or NO_TENANT,
        "STEELYARD_DOMAIN": scope.domain,
        "STEELYARD_WORKFLOW": plan.spec.workflow,
        "STEELYARD_MATRIX": name,
        "STEELYARD_VARIANT": variant.name,
    }


def _run_variant(
    arguments: list[str],
    variant: Variant,
    environment: dict[str, str],
    log: Path,
    spec: Path,
    program: Sequence[str],
) -> VariantOutcome:
    command = arguments if variant.evaluate is None else [*program, *arguments[1:]]
    started = time.monotonic()
    code, status = None, "failed"
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=spec.resolve().parent,
                start_new_session=True,  # so that a timeout ends what it started, too
            )
            try:
                code = process.wait(variant.timeout)
                status = "succeeded" if code == 0 else "failed"
            except subprocess.TimeoutExpired:
                status = "timed out"
            finally:
                _end(process)
    except OSError as problem:
        with suppress(OSError):
            log.write_text(f"{problem.strerror or type(problem).__name__}\n")
    seconds = time.monotonic() - started
    return VariantOutcome(name=variant.name, status=status, exit_code=code, seconds=seconds, log=log)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that still runs, with all that it started."""
    if process.poll() is None:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _finished(
    plan: Plan, scope: Scope, folder: Path, done: tuple[VariantOutcome, ...], name: str, *, stopped: bool
) -> Result:
    """Compare the runs of variants that succeeded, and promote the best, where the spec asks for it."""
    spec = plan.spec
    problems: list[str] = []
    rows: list[Standing] = []
    choice = None
    with Index(scope.root, tenant=scope.tenant, domain=scope.domain) as index:
        mine: list[RunEntry] = index.runs()
    good = {variant.name for variant in done if variant.status == "succeeded"}
    new = [r for r in mine if r.labels.get("matrix") == name and r.labels.get("variant") in good]
    try:
        if spec.compare is not None and new:
            key = known_key(new, spec.compare.metric, cells=True)
            rows = compared(ranked(new, key, spec.compare.better), key, None)
        if spec.promote is not None and new and not stopped:
            asked = spec.promote
            point = not asked.require_significant
            eps, better = asked.eps, asked.better
            choice, _, _ = decided(
                scope, mine, asked.metric, asked.profile, among=new, eps=eps, point=point, better=better, apply=True
            )
    except SteelyardError as problem:
        problems.append(str(problem))
    return Result(
        folder=folder,
        variants=done,
        rows=tuple(rows),
        metric=spec.compare.metric if spec.compare else None,
        better=spec.compare.better if spec.compare else None,
        choice=choice,
        promoted_by=spec.promote.metric if spec.promote else "",
        problems=tuple(problems),
    )


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
            raise UsageError(f"{printable(path)}: the variant '{variant.name}' appears twice")
        seen.add(variant.name)
        if (variant.command is None) == (variant.evaluate is None):
            raise UsageError(f"{printable(path)}: the variant '{variant.name}' needs either command or evaluate")
        _check_where(variant, path)
        if variant.command is not None and not variant.command:
            raise UsageError(f"{printable(path)}: the command of '{variant.name}' is empty")
        secret = next((k for k, v in variant.environment.items() if _SECRET.search(k) and not v.startswith("$")), None)
        if secret is not None:
            raise UsageError(
                f"{printable(path)}: environment.{printable(secret)} looks like a secret, and the spec is kept with "
                f"the logs; write ${printable(secret)} and set it outside"
            )
        if variant.timeout is not None and not variant.timeout > 0:
            raise UsageError(f"{printable(path)}: the timeout of '{variant.name}' is above 0 seconds")


def _check_where(variant: Variant, path: Path) -> None:
    try:
        conditions(getattr(variant.evaluate, "where", ()))
    except UsageError as problem:
        raise UsageError(f"{printable(path)}: the variant '{variant.name}': {problem}") from None
