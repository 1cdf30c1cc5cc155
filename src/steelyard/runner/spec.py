"""The run-spec: one YAML file that says which models are asked what, how, and what becomes of the answers.

    id: ckd
    task: ckd_detection
    models:
      - {name: cautious, backend: callable, options: {function: "models:cautious"}}
      - {name: gpt, backend: openai, base_url: "http://127.0.0.1:8080/v1", api_key_env: MY_KEY}
    adaptation: {strategy: [zero-shot, zero-shot-cot]}
    inference: {temperature: 0, max_tokens: 512}
    repeat: 3

Every field does something or is refused. The hash of a spec, without its description and limits, is in the id of every
run of it: a changed spec never reuses rows.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from steelyard.errors import UsageError
from steelyard.ground.specs import Place, at, spec_of
from steelyard.ground.structs import schema
from steelyard.ground.yaml import load_yaml, places

Name = Annotated[str, Meta(min_length=1, max_length=200)]
Count = Annotated[int, Meta(ge=1)]
Size = Annotated[int, Meta(ge=1, le=10_000_000)]
Money = Annotated[float, Meta(ge=0, le=1e9)]
Share = Annotated[float, Meta(ge=0, le=1)]
Confidence = Literal["reported", "logprobs", "verbalized", "consistency"]

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_VARIABLE = re.compile(r"\$\{[^}]*\}")
_SECRET = re.compile(
    r"(?i)(.*[_-])?(api[_-]?key|secret|password|credentials?|authorization|(access[_-]?)?token|bearer)"
)
_ENVIRONMENT = re.compile(r"(?:\$\{)?([A-Za-z_][A-Za-z0-9_]*)\}?")
_NOT_HASHED = ("description", "limits", "primary", "keep_replies")
_ADDED = ("spellings", "abstain")  # after runs were kept: where nothing is said, the hash is that of before


class Price(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What a million tokens cost, read and written, in any one currency."""

    input: Money = 0.0
    output: Money = 0.0


class Model(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A model to ask: what it is called, and how it is reached."""

    name: Name
    backend: Name = "openai"
    base_url: str | None = None
    api_key_env: str | None = None
    options: dict[str, Any] = {}
    price: Price | None = None


class Adaptation(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How a model is asked: strategies, how many examples those with examples show, and what compares questions."""

    strategy: list[Name] = msgspec.field(default_factory=lambda: ["zero-shot"])
    examples: Annotated[int, Meta(ge=1, le=100)] | None = None
    embedder: Name | None = None


class InferenceSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """What is asked of a server beside the messages."""

    temperature: Annotated[float, Meta(ge=0, le=5)] | None = 0.0
    seed: int | None = None
    max_tokens: Count | None = 1024
    logprobs: bool = False
    top_logprobs: Annotated[int, Meta(ge=1, le=100)] | None = None
    top_p: Share | None = None
    min_p: Share | None = None
    top_k: Count | None = None
    format: Literal["json", "text"] | None = None


class Data(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The file that a task's items come from, where they are not generated."""

    path: str
    map: dict[str, str] = {}
    where: list[str] | str = []


class RequestLimits(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Bounds of what a run may do to a server, and to an account.

    `timeout_s` is for one attempt, `deadline_s` for a question: all its attempts and the waits between them.
    """

    concurrency: Annotated[int, Meta(ge=1, le=1024)] = 8
    timeout_s: Annotated[float, Meta(gt=0, le=604_800)] = 120.0
    deadline_s: Annotated[float, Meta(gt=0, le=604_800)] = 300.0
    retries: Annotated[int, Meta(ge=0, le=100)] = 5
    max_cost: Annotated[float, Meta(gt=0, le=1e12)] | None = None


class Save(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Where the run is kept, and what it can be found by."""

    workflow: str | None = None
    domain: str | None = None
    tenant: str | None = None
    labels: dict[str, str] = {}


class Sustainability(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Energy of the run, measured by CodeCarbon, for the electricity of a country: three letters, as in DEU."""

    codecarbon: bool = False
    country_iso: Annotated[str, Meta(min_length=1, max_length=100)] | None = None


class RunSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A run-spec."""

    id: Name
    task: Name
    models: Annotated[list[Model], Meta(min_length=1)]
    description: str = ""
    sample_size: Size | None = None
    adaptation: Adaptation = Adaptation()
    inference: InferenceSpec = InferenceSpec()
    spellings: dict[str, list[Name]] = {}
    abstain: list[Annotated[str, Meta(min_length=1, max_length=500)]] = []
    keep_replies: bool = False
    perturbations: list[Name] = []
    repeat: Annotated[int, Meta(ge=1, le=1000)] = 1
    metrics: list[Name] = []
    primary: list[Name] = []
    sustainability: Sustainability | None = None
    cluster: str | None = None
    gate: list[str] | str = []
    data: Data | None = None
    seed: Annotated[int, Meta(ge=0)] = 0
    confidence: Confidence = "reported"
    limits: RequestLimits = RequestLimits()
    save: Save = Save()

    @property
    def hash(self) -> str:
        """Eight digits of what the spec says, whatever its layout, its description, its limits, and what decides.

        Limits say how fast and how far a run goes, not what it asks: one that they stopped may go on with others.
        """
        stated = {
            key: value
            for key, value in msgspec.to_builtins(self).items()
            if key not in _NOT_HASHED and (value or key not in _ADDED)
        }
        return hashlib.sha256(json.dumps(stated, sort_keys=True).encode()).hexdigest()[:8]

    @property
    def rules(self) -> list[str]:
        return [self.gate] if isinstance(self.gate, str) else self.gate


@dataclass(frozen=True)
class SpecFile:
    """A spec with where it came from: its folder, to which its paths are relative, and the lines of its fields."""

    spec: RunSpec
    source: str
    folder: Path
    lines: Mapping[Place, int] = field(default_factory=dict)

    def problem(self, place: Place, said: str) -> UsageError:
        """What is wrong with a field."""
        return at(self.source, self.lines, place, said)

    def path(self, name: str) -> Path:
        """A path in the spec, which is relative to its file."""
        return self.folder / name

    def files_of_models(self) -> dict[str, Path]:
        """The files that the options of models name: recorded answers, functions, weights."""
        texts = [value for model in self.spec.models for value in model.options.values() if isinstance(value, str)]
        named = sorted({part for text in texts for part in (text, text.partition(":")[0]) if part})
        return {name: self.path(name) for name in named if _is_file(self.path(name))}


def _is_file(path: Path) -> bool:
    """False, too, of a text that is too long to be a path, or holds what none can."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def load_spec(source: Path | str | Mapping[str, Any], **changes: Any) -> SpecFile:
    """A spec from a file or a mapping; `changes` are fields that were given otherwise, and win."""
    if isinstance(source, Mapping):
        raw: Any = dict(source)
        file = SpecFile(spec_of(raw, RunSpec, source="spec"), "spec", Path())
    else:
        path = Path(source)
        raw, lines = load_yaml(path), places(path)
        file = SpecFile(spec_of(raw, RunSpec, source=str(path), lines=lines), str(path), path.parent, lines)
    given = {name: value for name, value in changes.items() if value is not None}
    if "max_cost" in given and not 0 < given["max_cost"] < inf:
        raise UsageError("`max_cost=` is above 0")
    for name, most in (("limit", 10_000_000), ("concurrency", 1024)):
        if name in given and not 1 <= given[name] <= most:
            raise UsageError(f"`{name}=` is at least 1 and at most {most:,}")
    limits = {name: given.pop(name) for name in ("concurrency", "deadline_s", "retries", "max_cost") if name in given}
    if "limit" in given:
        given["sample_size"] = given.pop("limit")
    spec = msgspec.structs.replace(file.spec, **given)
    if limits:
        spec = msgspec.structs.replace(spec, limits=msgspec.structs.replace(spec.limits, **limits))
    changed = replace(file, spec=spec)
    _check(changed, raw)
    return changed


def _check(file: SpecFile, raw: Any) -> None:
    """Refuse what does nothing, or cannot be meant."""
    spec = file.spec
    if not _ID.fullmatch(spec.id):
        raise file.problem(("id",), "an id has letters, digits, and . _ - after the first character, at most 64")
    if spec.limits.max_cost is not None and not any(model.price for model in spec.models):
        raise file.problem(("limits", "max_cost"), "no model has a price, so no cost is known")
    energy = spec.sustainability
    if energy is not None and energy.codecarbon != (energy.country_iso is not None):
        place = "country_iso" if energy.country_iso is not None else "codecarbon"
        raise file.problem(("sustainability", place), "codecarbon: true and country_iso: DEU go together")
    if spec.confidence == "logprobs" and not spec.inference.logprobs:
        raise file.problem(("confidence",), "logprobs are needed: inference: {logprobs: true}")
    if spec.inference.top_logprobs is not None and not spec.inference.logprobs:
        raise file.problem(("inference", "top_logprobs"), "does nothing without logprobs: true")
    _check_models(file)
    _check_variables(file, raw, ())
    for number, model in enumerate(spec.models):
        _check_secrets(file, model.options, ("models", number, "options"))
    if len(set(spec.perturbations)) != len(spec.perturbations):
        raise file.problem(("perturbations",), "a perturbation appears twice")
    strategies = spec.adaptation.strategy
    if not strategies or len(set(strategies)) != len(strategies):
        raise file.problem(("adaptation", "strategy"), "one strategy or several different ones are expected")


def _check_models(file: SpecFile) -> None:
    seen: set[str] = set()
    for number, model in enumerate(file.spec.models):
        if model.name in seen:
            raise file.problem(("models", number, "name"), "the name appears twice")
        seen.add(model.name)
        if model.api_key_env is not None and not _ENVIRONMENT.fullmatch(model.api_key_env):
            raise file.problem(
                ("models", number, "api_key_env"), "the name of an environment variable is expected, never a key itself"
            )


def _check_variables(file: SpecFile, value: Any, place: Place) -> None:
    """`${NAME}` stands for itself but where the name of a variable is expected; so it is refused elsewhere."""
    if isinstance(value, str) and _VARIABLE.search(value) and place[-1:] != ("api_key_env",):
        raise file.problem(place, "variables of the environment are read for api_key_env only")
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        _check_variables(file, part, (*place, key))


def _check_secrets(file: SpecFile, value: Any, place: Place) -> None:
    """A spec is kept with its run, so no option may hold a key."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if isinstance(key, str) and _SECRET.fullmatch(key):
            raise file.problem(
                (*place, key), "looks like a key, and the spec is kept; set a variable and name it in api_key_env"
            )
        _check_secrets(file, part, (*place, key))


def variable_of(model: Model) -> str | None:
    """The environment variable that holds a model's key."""
    match = _ENVIRONMENT.fullmatch(model.api_key_env or "")
    return match[1] if match else None


def spec_schema() -> dict[str, Any]:
    """The JSON Schema of a run-spec."""
    return schema(RunSpec, "Run-spec")
