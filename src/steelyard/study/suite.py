"""A suite: tasks that a model is measured in, each with its cases, its metrics and the one that matters most.

    name: clinic
    tasks:
      - name: triage                     # plain word; answers are in triage.jsonl, or have it in their column `task`
        type: diagnostic_reasoning       # or qa, summarization, communication
        data: triage.jsonl               # next to this file, in any format that can be read
        fields: {id: id, target: answer, group.site: site}       # what it is here: field of the data
        metrics: [accuracy, f1_macro]
        primary: accuracy                # by default the first
    combined:
      weights: {diagnostics: 0.7, safety: 0.3}
      map: {f1_macro: diagnostics}       # further keys of the category map, or other categories for known ones
      name: index                        # by default combined_score
      renormalize_missing: true
    decides: [index, safety]             # what a comparison is about: the combined score (by default it alone),
                                         # categories, or either in a task, as index{task=triage}; the rest explores

Fields are columns, and a few have names of their own: `id` is the item, `specialty` the column `group.specialty`,
`rationale` the reference's, `target_rationale`, next to the model's own `rationale`. `question`, `note` and `labels`
are for asking (`task: clinical/NAME` in a run-spec), `paraphrase` for tests; of these only the note is measured. `id`
is by default the field that is called so, or what else people call it, and `target` the one called so.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from steelyard.errors import UsageError, printable
from steelyard.ground.specs import Place, at, spec_of
from steelyard.ground.structs import schema
from steelyard.ground.yaml import load_yaml, places
from steelyard.metrics.categories import COMBINED, WEIGHTS, CategoryMap, checked_name, checked_weights
from steelyard.metrics.definition import UNIT, Metric, metric_of, single
from steelyard.metrics.questions.benchmark import category, combined_score
from steelyard.naming import parse
from steelyard.records.plan import Measure, Plan
from steelyard.registry import closest
from steelyard.study.primary import Question
from steelyard.texts.lexicon import ICD

SUITES = Path(__file__).parent.parent / "suites"  # those that come with the program
SUITE = "suite.yaml"
ROLES = {"id": "item", "specialty": "group.specialty", "rationale": "target_rationale"}  # fields with another column
NOT_MEASURED = ("question", "paraphrase", "labels")
TaskType = Literal["diagnostic_reasoning", "qa", "summarization", "communication"]


class TaskSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A task of a suite. `fields` says which field of the data is which column; `primary` is the metric to look at."""

    name: str
    type: TaskType
    data: str
    metrics: Annotated[list[str], msgspec.Meta(min_length=1)]
    fields: dict[str, str] = {}
    primary: str | None = None
    description: str = ""


class CombinedSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How categories become one score. `map` adds to the usual map from metrics to categories; null takes one out."""

    weights: dict[str, float] = {}
    name: str = COMBINED
    map: dict[str, str | None] = {}
    renormalize_missing: bool = True


class SuiteSpec(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A suite of tasks. `cluster` is the column whose values are resampled together; by default the task's items.

    `lexicon` are tables of clinical terms, next to the file, that metrics of texts know besides their own. `decides`
    says which scores a comparison of two models is about; without it the combined score.
    """

    name: str
    tasks: Annotated[list[TaskSpec], msgspec.Meta(min_length=1)]
    description: str = ""
    version: str = ""
    cluster: str | None = None
    lexicon: list[str] = []
    combined: CombinedSpec = CombinedSpec()
    decides: list[str] = []


def suite_schema() -> dict[str, Any]:
    """The JSON Schema of suite files."""
    return schema(SuiteSpec, "Suite")


@dataclass(frozen=True, kw_only=True)
class SuiteTask:
    """A task of a suite that was checked: its metrics can be computed, its data are there."""

    spec: TaskSpec
    data: Path
    metrics: tuple[Metric, ...]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def columns(self) -> dict[str, str]:
        """The columns that metrics may read, and the fields of the data that they are."""
        fields = self.spec.fields
        return {ROLES.get(role, role): name for role, name in fields.items() if role not in NOT_MEASURED}

    @property
    def primary(self) -> str:
        return self.spec.primary or self.metrics[0].name


@dataclass(frozen=True, kw_only=True)
class Combining:
    """How a benchmark combines what it measured: which metric counts where, what it weighs, and under which name."""

    categories: CategoryMap
    weights: Mapping[str, float]
    name: str = COMBINED
    renormalize_missing: bool = True


@dataclass(frozen=True, kw_only=True)
class Suite:
    """A suite: what is asked and measured."""

    spec: SuiteSpec
    source: str
    tasks: tuple[SuiteTask, ...]

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def lexicon(self) -> tuple[str, ...]:
        """The tables of terms that the suite names: `icd10cm`, or files next to it."""
        folder = Path(self.source).parent
        return tuple(name if name == ICD else str(folder / name) for name in self.spec.lexicon)

    @property
    def all_tasks(self) -> tuple[str, ...]:
        """The names of all its tasks, whether they are measured or not."""
        return tuple(task.name for task in self.spec.tasks)

    def only(self, names: Sequence[str]) -> Suite:
        """The suite with these tasks only."""
        for name in names:
            if name not in self.all_tasks:
                near = closest(name, list(self.all_tasks))
                hint = f"did you mean '{near}'?" if near else f"there are: {', '.join(self.all_tasks)}"
                raise UsageError(f"the suite {printable(self.name)} has no task '{printable(name)}'; {hint}")
        return replace(self, tasks=tuple(task for task in self.tasks if task.name in names)) if names else self

    def combining(
        self,
        *,
        weights: Mapping[str, float] | None = None,
        name: str | None = None,
        categories: Mapping[str, str | None] | None = None,
        renormalize_missing: bool | None = None,
    ) -> Combining:
        """How scores are combined: as the suite says, but for what is given here."""
        own = self.spec.combined
        known = CategoryMap().with_keys(CategoryMap().checked(own.map, [name for name in own.map.values() if name]))
        known = known.with_keys(known.checked(categories or {}, weights if weights is not None else own.weights))
        given = weights if weights is not None else own.weights
        if weights is None and not own.weights:
            given = {n: WEIGHTS.get(n, 0.0) for n in known.names}
            met = {category for task in self.tasks for m in task.metrics if (category := known.of(m.name))}
            if not any(given[n] for n in met):  # a suite with categories of its own, of which nothing was said
                given = dict.fromkeys(sorted(met), 1.0) or WEIGHTS
        called = checked_name(name or own.name, "the combined score's name")
        taken = [m.name for task in self.tasks for m in task.metrics] + list(known.names)
        if called in taken:
            raise UsageError(f"'{printable(called)}' is a metric or a category; call the combined score otherwise")
        stated = own.renormalize_missing if renormalize_missing is None else renormalize_missing
        return Combining(
            categories=known,
            weights=checked_weights(given, known.names),
            name=called,
            renormalize_missing=stated,
        )

    def deciding(self, how: Combining) -> list[Question]:
        """What a comparison of two models is about, where the suite says so."""
        return [self._question(text, how) for text in self.spec.decides]

    def _question(self, text: str, how: Combining) -> Question:
        expr = parse(text)
        slice_, name = dict(expr.slice), str(replace(expr, slice=()))
        tasks = [task.name for task in self.spec.tasks]
        if set(slice_) - {"task"} or slice_.get("task", tasks[0]) not in tasks:
            raise UsageError(f"'{printable(text)}': a slice names a task, such as {{task={tasks[0]}}}")
        if name in (how.name, self.spec.combined.name, COMBINED):
            return Question(combined_score(), slice_)
        if name in how.categories.names:
            return Question(category(label=name), slice_)
        known = ", ".join((how.name, *how.categories.names))
        raise UsageError(f"'{printable(text)}' is neither the combined score nor a category; there are: {known}")

    def plan(self, how: Combining) -> Plan:
        """What is measured in each task, and how its categories are weighed."""
        measures = [
            Measure(task.name, metric.name, _category(metric, how.categories))
            for task in self.tasks
            for metric in task.metrics
        ]
        return Plan(tuple(measures), tuple(how.weights.items()), how.renormalize_missing)


def _category(metric: Metric, known: CategoryMap) -> str:
    """The category of a metric, empty where it counts in none; what cannot be averaged with others is refused."""
    category = known.of(metric.name)
    if category is None:
        return ""
    if metric.better != "higher" or metric.bounds != UNIT:
        raise UsageError(
            f"{metric} cannot count in {printable(category)}: a category averages scores from 0 to 1 of which higher "
            "is better; take it out of the map"
        )
    return category


def load_suite(source: str | os.PathLike[str]) -> Suite:
    """The suite in a file, or the one of this name that comes with the program."""
    path = Path(source)
    if path.is_dir():
        path = path / SUITE
    if not path.is_file() and path.suffix not in (".yaml", ".yml"):
        path = _shipped(os.fspath(source))
    raw, lines = load_yaml(path), places(path)
    spec = spec_of(raw, SuiteSpec, source=str(path), lines=lines)
    return _checked(spec, path, lines)


def shipped_suites() -> list[str]:
    """The names of the suites that come with the program."""
    return sorted(folder.name for folder in SUITES.iterdir() if (folder / SUITE).is_file()) if SUITES.is_dir() else []


def _shipped(name: str) -> Path:
    known = shipped_suites()
    if name not in known:
        near = closest(name, known)
        hint = f"did you mean '{near}'?" if near else f"shipped: {', '.join(known) or 'none'}"
        raise UsageError(f"'{printable(name)}' is neither a suite file nor a suite that comes with the program; {hint}")
    return SUITES / name / SUITE


def _checked(spec: SuiteSpec, path: Path, lines: Mapping[Place, int]) -> Suite:
    source = str(path)
    tasks: dict[str, SuiteTask] = {}
    for number, each in enumerate(spec.tasks):
        place: Place = ("tasks", number)
        with_place = _At(source, lines, place)
        with_place.checked("name", lambda each=each: checked_name(each.name, "a task's name"))
        if each.name in tasks:
            raise at(source, lines, (*place, "name"), "another task has this name")
        data = path.parent / each.data
        if not data.is_file():
            raise at(source, lines, (*place, "data"), "there is no such file")
        metrics = [
            with_place.checked("metrics", lambda text=text: single(metric_of(text)), i)
            for i, text in enumerate(each.metrics)
        ]
        if len(set(metrics)) < len(metrics):
            raise at(source, lines, (*place, "metrics"), "a metric is listed twice")
        if each.primary is not None and each.primary not in [m.name for m in metrics]:
            near = closest(each.primary, [m.name for m in metrics])
            hint = f"; did you mean '{near}'?" if near else ""
            raise at(source, lines, (*place, "primary"), f"it is one of the task's metrics{hint}")
        tasks[each.name] = SuiteTask(spec=each, data=data, metrics=tuple(metrics))
    suite = Suite(spec=spec, source=source, tasks=tuple(tasks.values()))
    whole = _At(source, lines, ())
    whole.checked("combined", lambda: suite.plan(suite.combining()))
    whole.checked("decides", lambda: suite.deciding(suite.combining()))
    return suite


@dataclass(frozen=True)
class _At:
    """A place of a suite file, at which problems are said."""

    source: str
    lines: Mapping[Place, int]
    place: Place

    def checked(self, key: str, make: Any, *more: int) -> Any:
        try:
            return make()
        except UsageError as problem:
            raise at(self.source, self.lines, (*self.place, key, *more), str(problem)) from None
