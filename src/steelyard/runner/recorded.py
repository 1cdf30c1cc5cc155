"""From a journal to records: what was answered, in the order of the plan.

A journal is read twice, and never held: once to learn where the row of every request begins, what was spent and how
long it took; then row by row in the order of the plan, so that a run that was interrupted gives the same records as one
that was not. Of two rows of one request the first with a reply counts. A reply from the cache took no time and no
tokens, so both are null.

confidence    `reported`: what the model said, from 0 to 1, and v from 1 to 5 as (v − 1)/4
              `verbalized`: v from 1 to 5 alone; `logprobs`: how likely its label is among the labels, or where the
              answer is a number, the mean probability of its tokens; `consistency`: the share of the samples that agree

An answer that is made of several samples (`samples`) is one record, once all of them have ended.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from steelyard.errors import StorageError, counted, printable
from steelyard.ground.digests import file_digest
from steelyard.ground.journal import Rows
from steelyard.records.admitting import admitted
from steelyard.records.sources import Source
from steelyard.records.table import Records
from steelyard.records.task import Task as TaskFacts
from steelyard.runner.backends.contract import OF_SERVERS
from steelyard.runner.energy import scope
from steelyard.runner.plan import Place, Plan
from steelyard.runner.samples import combined
from steelyard.runner.tally import Tally
from steelyard.runner.tasks import answers_are

_BATCH = 10_000  # rows
_NOWHERE = -1


@dataclass
class Standing:
    """How far a run got: where in its journal the row of every request begins, and the counts of every model."""

    plan: Plan
    path: Path
    places: array[int]
    tallies: dict[str, Tally]
    seconds: dict[int, float] = field(default_factory=dict)  # by the time that the run was taken up
    energy: dict[int, Mapping[str, float]] = field(default_factory=dict)  # likewise
    failed: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, plan: Plan, path: Path) -> Standing:
        """What a journal says; nothing, where there is none yet."""
        tallies = {model.name: Tally(plan.per_model) for model in plan.spec.models}
        standing = cls(plan, path, array("q", [_NOWHERE]) * plan.count, tallies)
        if path.exists():
            standing._read()
        return standing

    def _read(self) -> None:
        rows, start = Rows(self.path), 0
        for row in rows:
            if "key" in row:
                self._add(row, start)
            elif "energy" in row:
                self.energy[row["session"]] = row["energy"]
            start = rows.whole

    def _add(self, row: Mapping[str, Any], start: int) -> None:
        number = row["key"]
        if not self.plan.has_asked(row):
            raise StorageError(f"{printable(self.path)} is the journal of another plan")
        tally = self.tallies[row["model"]]
        session = row["session"]
        self.seconds[session] = max(self.seconds.get(session, 0.0), row["at"])
        replaces = number in self.failed
        if self.places[number] != _NOWHERE and not replaces:
            return
        if replaces:
            (before,) = Rows(self.path).at([self.places[number]])
            tally.add(before, -1)
            self.failed.discard(number)
        self.places[number] = start
        tally.add(row)
        if row["reply"].get("failure"):
            self.failed.add(number)

    @property
    def is_done(self) -> bytearray:
        """By number, whether a request has a row."""
        return bytearray(place != _NOWHERE for place in self.places)

    @property
    def done(self) -> int:
        return sum(tally.done for tally in self.tallies.values())

    @property
    def sessions(self) -> int:
        """How often the run was taken up."""
        return max((*self.seconds, *self.energy), default=0)

    @property
    def is_complete(self) -> bool:
        return self.done == len(self.places)

    def forget_failed(self) -> None:
        """Count what failed as not asked."""
        for number in self.failed:
            self.places[number] = _NOWHERE
        self.failed.clear()
        for tally in self.tallies.values():
            tally.forget_failed()

    def rows(self) -> Iterator[tuple[Place, dict[str, Any]]]:
        """Every row in the order of the plan, with its place there."""
        numbers = [number for number, place in enumerate(self.places) if place != _NOWHERE]
        for number, row in zip(numbers, Rows(self.path).at(self.places[n] for n in numbers), strict=True):
            yield self.plan.place(number), row

    def answers(self) -> Iterator[tuple[Place, Mapping[str, Any]]]:
        """The same, one for all the samples of an answer; one of which samples are missing is none yet."""
        for _, group in groupby(self.rows(), key=lambda each: each[0].number - each[0].sample):
            samples = list(group)
            place = samples[0][0]
            if len(samples) == place.strategy.samples:
                yield place, samples[0][1] if len(samples) == 1 else combined([row for _, row in samples])


def recorded(standing: Standing) -> Records:
    """The records of a run, of whatever has ended so far."""
    import pyarrow as pa

    plan = standing.plan
    waiting = standing.answers()
    tables = []
    while batch := list(islice(waiting, _BATCH)):
        tables.append(table_of(plan, batch))
    whole = pa.concat_tables(tables, promote_options="permissive") if tables else pa.table({})
    asked = f"{standing.done:,} of {counted(len(standing.places), 'request')}"
    source = Source(
        plan.spec.id,
        file_digest(standing.path),
        len(whole),
        excerpt="" if standing.is_complete else asked,
    )
    return admitted(
        columns_of(whole),
        cluster=None,
        task=facts_of(plan, _facts(standing)),
        sources=(source,),
        warnings=_warnings(standing),
    )


_ALWAYS = ("model", "strategy", "task", "item", "repeat", "target", "prediction", "outcome", "confidence")


def columns_of(table: Any) -> dict[str, Any]:
    """The columns in which there is anything, and those that are always there."""
    columns = {name: table.column(name).combine_chunks() for name in table.column_names}
    return {name: column for name, column in columns.items() if name in _ALWAYS or column.null_count < len(column)}


def table_of(plan: Plan, batch: Iterable[tuple[Place, Mapping[str, Any]]]) -> Any:
    """Rows of a journal as columns, under the names that records have."""
    import pyarrow as pa

    from steelyard.records.schema import to_arrow

    rows = [_record(plan, place, row) for place, row in batch]
    names = dict.fromkeys(name for row in rows for name in row)
    first = rows[0]
    columns = {name: to_arrow(name, [row.get(name) for row in rows], lambda n: (first["task"], n)) for name in names}
    return pa.table(columns)


def _record(plan: Plan, place: Place, row: Mapping[str, Any]) -> dict[str, Any]:
    """One answer, under the names that records have."""
    item, reply, parsed = place.item, row["reply"], row["parsed"] or {}
    failed = bool(reply.get("failure"))
    cached = bool(reply.get("cached"))
    kind = answers_are(plan.task)
    target = float(item.target) if kind == "numbers" and item.target is not None else item.target
    return {
        "model": place.model.name,
        "strategy": place.strategy.name,
        "task": plan.task.name,
        "item": item.id,
        "repeat": place.repeat,
        "perturbation": place.perturbation,
        "cluster": item.cluster,
        "target": target,
        "prediction": parsed.get("prediction"),
        "outcome": "failed" if failed else parsed.get("outcome", "unparsed"),
        "declined_by": parsed.get("how") if parsed.get("outcome") == "abstained" else None,
        "confidence": _confidence(plan, row),
        "should_abstain": item.should_abstain,
        "latency_ms": None if cached else reply.get("latency_ms"),
        "input_tokens": None if cached else reply.get("input_tokens"),
        "output_tokens": None if cached else reply.get("output_tokens"),
        "cached": cached,
        "retries": reply.get("retries", 0),
        "cost": None if cached else row["cost"],
        "reasoning_chars": parsed.get("reasoning_chars"),
        **({"rationale": parsed.get("rationale")} if kind == "text" else {}),
        **({"reply": reply.get("text")} if plan.spec.keep_replies else {}),
        **{f"group.{name}": value for name, value in item.groups.items()},
        **{f"signal.{name}": value for name, value in (row.get("signals") or {}).items()},
        **{f"signal.{name}": value for name, value in plan.held_out.signals(place.strategy, item).items()},
        **({"signal.verbalized_confidence": parsed.get("verbalized")} if place.strategy.verbalized else {}),
        **item.more,
    }


def _confidence(plan: Plan, row: Mapping[str, Any]) -> float | None:
    """How sure the model was, by what the spec says confidence is."""
    parsed, signals = row["parsed"] or {}, row.get("signals") or {}
    if plan.spec.confidence == "consistency":
        return signals.get("consistency_modal_confidence")
    if plan.spec.confidence == "logprobs":
        return signals.get("label_confidence" if plan.task.labels is not None else "token_msp")
    stated = parsed.get("verbalized")
    if stated is not None:
        return float((stated - 1) / 4)
    return None if plan.spec.confidence == "verbalized" else parsed.get("confidence")


def facts_of(plan: Plan, facts: Mapping[str, float]) -> TaskFacts:
    """What is known of the whole table."""
    task = plan.task
    return TaskFacts(
        labels=task.labels,
        range=None if task.range is None else task.range[1] - task.range[0],
        direction=task.direction,
        facts=facts,
    )


def _facts(standing: Standing) -> dict[str, float]:
    """How long models were asked, and with how much energy; that says nothing where replies came from the cache."""
    if any(tally.cached for tally in standing.tallies.values()):
        return {}
    seconds, every = sum(standing.seconds.values()), standing.energy.values()
    energy = {name: sum(used[name] for used in every) for name in ("kwh", "co2_kg") if every}
    return {**({"wall_seconds": seconds} if seconds else {}), **energy}


def _warnings(standing: Standing) -> tuple[str, ...]:
    """What a reader of the numbers should know."""
    said = list(standing.plan.warnings)
    said += [
        f"left out of the data: {counted(count, 'row')}, {reason}" for reason, count in standing.plan.left_out.items()
    ]
    said += remarks_on(standing.plan)
    remarks: Counter[str] = Counter()
    for name, tally in standing.tallies.items():
        of_server = {remark: count for remark in OF_SERVERS if (count := tally.remarks[remark]) > 0}
        said += [f"{printable(name)}: in {counted(n, 'reply')}, {remark}" for remark, n in of_server.items()]
        remarks += Counter({remark: n for remark, n in tally.remarks.items() if remark not in of_server})
    said += [f"in {count:,} replies: {remark}" for remark, count in sorted(remarks.items())]
    cached = sum(tally.cached for tally in standing.tallies.values())
    if cached:
        said.append(f"{cached:,} replies came from the cache; they took no time and no tokens")
    return (*said, *_about_energy(standing))


def _about_energy(standing: Standing) -> tuple[str, ...]:
    """What the energy of a run is the energy of."""
    asked = standing.plan.spec.sustainability
    if asked is None or not asked.codecarbon:
        return ()
    if any(tally.cached for tally in standing.tallies.values()):
        return ("energy and time of the whole are not stated, because replies came from the cache",)
    unmeasured = len({*standing.seconds} - {*standing.energy})
    lacks = f"it was not measured in {unmeasured:,} of the {len(standing.seconds):,} times that the run went on"
    return (scope(standing.plan.spec.models), *([f"energy is more than what is stated: {lacks}"] if unmeasured else []))


def remarks_on(plan: Plan) -> list[str]:
    """What the perturbations left as it was."""
    return [
        f"{name} changes nothing in {count:,} of {counted(len(plan.items), 'item')}, which are not asked about again"
        for name, count in plan.unchanged.items()
        if count
    ]
