"""What `promptfoo eval` writes: a JSON document with its rows at results.results, or one row per line.

    promptfoo eval -c config.yaml -o run.json -o run.jsonl

The prompt becomes `strategy`, the provider `model`. A repeat of a test carries no mark of its own, so the item is the
test: the `id` in its metadata, else a digest of its vars and description, and the repeat counts how often it came so
far with the same prompt and provider. The mark is promptfoo's own judgement, `success`; `scorer=` takes that of the
assertions with a metric of that name instead. `vars.*`, `metadata.*` and `score.*` keep their names; `score.overall` is
the score of the row. A test without assertions always succeeds, which says nothing: it has no mark.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from steelyard.errors import counted, printable
from steelyard.records.declared import Declared
from steelyard.records.readers.contract import Certainty, Table, reader
from steelyard.records.readers.head import SIZE, Head
from steelyard.records.readers.inputs import Input
from steelyard.records.readers.json_elements import Elements
from steelyard.records.readers.log_rows import Shape, around, elements, lines, retold
from steelyard.records.readers.log_values import Due
from steelyard.records.readers.logged import Samples, chosen
from steelyard.records.readers.promptfoo_rows import (
    About,
    Config,
    Document,
    Metrics,
    Prompt,
    Provider,
    Response,
    Results,
    Row,
    Stats,
    TestCase,
    Tokens,
)

_ROW_KEYS = frozenset(
    ("failureReason", "gradingResult", "latencyMs", "namedScores", "promptId", "promptIdx", "testCase", "testIdx")
)
_OLD = re.compile(r'\{\s*"results"\s*:\s*(?:\{\s*"version"\s*:\s*\d+\s*,|\[\s*\{)')
_VARIABLE = re.compile(r"\{\{\s*([\w.]+)\s*\}\}")
_OWN = ("_promptfooFileMetadata", "errorContext")  # what promptfoo adds to the metadata of a test
_LONGEST_LABEL = 60  # characters; a longer one is the prompt itself


def sniff(head: Head) -> Certainty:
    """A document with evalId and results, or rows with keys that no other tool writes."""
    if head.container or head.json != "object":
        return "no"
    keys, text = set(head.keys), head.text or ""
    if "results" in keys:
        old = _OLD.match(text.lstrip()) and all(f'"{key}"' in text for key in ("vars", "provider", "success"))
        return "sure" if old or "evalId" in keys else "no"
    return "sure" if len(_ROW_KEYS & keys) > 3 else "no"


@reader(
    "promptfoo",
    about="what promptfoo eval writes, a JSON document with results or one row per line",
    suffixes=(".json", ".jsonl"),
    sniff=sniff,
)
def load(source: Input) -> Table:
    """The rows of a run, whatever its form."""
    log = _Log(source)
    first, chunks = b"", source.chunks()
    while len(first) < SIZE and (chunk := next(chunks, b"")):
        first += chunk
    head = Head(name="", data=first[:SIZE], complete=False)
    if "results" not in head.keys:
        for _, row in lines(source, Shape(source, Row, tool="promptfoo"), begun=chain([first], chunks)):
            log.add(row)
        return log.table(Document())
    old = dict(zip(head.keys, head.openings, strict=True))["results"] == "["
    document = Elements(chain([first], chunks), ("results",) if old else ("results", "results"))
    for _, row in elements(source, document, Shape(source, Row, tool="promptfoo")):
        log.add(row)
    if not document.found:
        raise source.error("there are no rows: a list is expected", field="results.results")
    shape = Shape(source, Document, tool="promptfoo")
    return log.table(around(source, document, shape, rows=len(log.samples)) or Document())


# -- rows --------------------------------------------------------------------------------------------------------------


class _Asked(NamedTuple):
    """A prompt given to a provider: a column of promptfoo's own table. Only `place` tells configurations apart."""

    place: int | None
    prompt: str
    label: str
    provider: str
    model: str


@dataclass
class _Tally:
    """What became of the rows of a column, by promptfoo's own count."""

    passed: int = 0
    failed: int = 0
    errors: int = 0
    score: float = 0.0

    def add(self, row: Row) -> None:
        self.passed += bool(row.success)
        self.errors += not row.success and row.failed
        self.failed += not row.success and not row.failed
        self.score += row.score or 0.0


@dataclass
class _Tests:
    """The tests that came by: how often each was put to each column, and which items stand for several tests."""

    seen: Counter[tuple[str, str]] = field(default_factory=Counter)
    digests: dict[str, str] = field(default_factory=dict)
    mixed: set[str] = field(default_factory=set)

    def item(self, row: Row) -> str:
        test = row.test_case or TestCase()
        asked = test.vars if test.vars is not None else row.vars or {}
        whole = _digest([asked, test.description, msgspec.to_builtins(test.assertions)])
        stated = (test.metadata or row.metadata or {}).get("id")
        named = isinstance(stated, str | int) and not isinstance(stated, bool) and stated != ""
        item = str(stated) if named else _digest([asked, test.description])
        if self.digests.setdefault(item, whole) != whole:
            self.mixed.add(item)
        return item

    def repeat(self, item: str, column: str) -> int:
        self.seen[item, column] += 1
        return self.seen[item, column]


class _Log:
    """The rows of a run, and what is to be said of all of them."""

    def __init__(self, source: Input) -> None:
        self._source = source
        self.samples = Samples(source, what="rows")
        self._tests = _Tests()
        self._due = Due()
        self._columns: dict[_Asked, str] = {}  # to the code that stands for it until all are known
        self._tallies: dict[str, _Tally] = {}
        self._metrics: dict[str, None] = {}
        self._rows = self._unjudged = self._without = 0

    def add(self, row: Row) -> None:
        """Add a row of the log: one record, or one for each scorer that was asked for."""
        self._rows += 1
        column = self._columns.setdefault(_asked(row), str(len(self._columns)))
        self._tallies.setdefault(column, _Tally()).add(row)
        metrics = _metrics(row)
        self._metrics.update(dict.fromkeys(metrics))
        try:
            item = self._tests.item(row)
        except RecursionError:
            raise self._source.error("the vars are nested too deeply", line=self._rows, field="vars") from None
        repeat = self._tests.repeat(item, column)
        common = {"item": item, "repeat": repeat, "strategy": column, "model": column}
        asked = self._source.scorers
        if asked:
            self._without += not row.failed and any(name not in metrics for name in asked)
            for name in asked:
                task = {"task": name} if len(asked) > 1 else {}
                self.samples.add(common | task | self._record(row, metrics.get(name)))
            return
        self._unjudged += not row.judged and not row.failed
        self.samples.add(common | self._record(row, row.success if row.judged else None))

    def _record(self, row: Row, mark: bool | None) -> dict[str, Any]:
        test, response = row.test_case or TestCase(), row.response or Response()
        asked = row.vars if row.vars is not None else test.vars or {}
        metadata = test.metadata if test.metadata is not None else row.metadata or {}
        metadata = {key: value for key, value in metadata.items() if key not in _OWN}
        target, text = _target(row, asked), _text(response.output)
        if row.failed:
            outcome = self.samples.counted("failed", "promptfoo marks it as an error")
        else:
            outcome = self.samples.outcome(
                answer=text,
                completion=text,
                target=target,
                no_answer=bool(response.is_refusal),
                right=bool(mark),
            )
        tokens = response.token_usage or _stated(row.token_usage)
        stated = {
            "latency_ms": None if response.cached or row.failed else row.latency_ms,
            "input_tokens": _whole(tokens.prompt),
            "output_tokens": _whole(tokens.completion),
            "cost": response.cost if response.cost is not None else row.cost or None,
        }
        record: dict[str, Any] = {
            "target": target,
            "prediction": text if outcome == "answered" else None,
            "outcome": outcome,
            "mark": None if outcome == "failed" else mark,
            **{name: value for name, value in stated.items() if value is not None},
            "score": {"overall": row.score} | (row.named_scores or {}),
            "vars": asked,
            "metadata": metadata,
        }
        if (due := self._due.of(metadata.get("should_abstain", asked.get("should_abstain")))) is not None:
            record["should_abstain"] = due
        return record

    def table(self, document: Document) -> Table:
        """All rows, with the names of prompts and providers, and what the document says of the run."""
        chosen(self._source, tuple(self._metrics))
        strategies, models = _names(self._columns)
        results, config, about = document.summary(), document.config or Config(), document.metadata or About()
        facts = {
            "tool": "promptfoo",
            "tool_version": about.promptfoo_version,
            "run_id": document.eval_id,
            "task": config.description,
            "created": results.timestamp or about.evaluation_created_at,
        }
        table = self.samples.table(
            about={name: value for name, value in facts.items() if value},
            declared=list(self._declared(results, strategies, models)),
            excerpt=self._excerpt(results.stats or Stats()),
            remarks=[*self._remarks(), *self._due.remarks(self._source.name)],
        )
        return retold(self._source, retold(self._source, table, "strategy", strategies), "model", models)

    def _declared(
        self, results: Results, strategies: Mapping[str, str], models: Mapping[str, str]
    ) -> Iterator[Declared]:
        codes = {asked.place: code for asked, code in self._columns.items()}
        for place, column in enumerate(results.prompts or ()):
            if column.metrics is None or place not in codes:
                continue
            code = codes[place]
            where = f"{strategies[code]}, {models[code]}" if len(codes) > 1 else ""
            yield from self._compared(column.metrics, self._tallies[code], where)
        stats, every = results.stats or Stats(), self._tallies.values()
        errors, failed = sum(each.errors for each in every), sum(each.failed for each in every)
        counts = {
            "successes": (stats.successes, sum(each.passed for each in every)),
            "failures": (stats.failures, failed if stats.errors is not None else failed + errors),
            "errors": (stats.errors, errors),
        }
        for name, (stated, own) in counts.items():
            if stated is not None:
                yield Declared(name=name, stated=stated, recomputed=own)

    @staticmethod
    def _compared(metrics: Metrics, tally: _Tally, where: str) -> Iterator[Declared]:
        counted = {
            "testPassCount": (metrics.test_pass_count, tally.passed),
            "testFailCount": (metrics.test_fail_count, tally.failed),
            "testErrorCount": (metrics.test_error_count, tally.errors),
            "score": (metrics.score, tally.score),
        }
        for name, (stated, own) in counted.items():
            if stated is not None:
                yield Declared(name=f"{name} ({where})" if where else name, stated=stated, recomputed=own)

    def _excerpt(self, stats: Stats) -> str:
        stated = sum(count or 0 for count in (stats.successes, stats.failures, stats.errors))
        return f"{self._rows:,} of {counted(stated, 'row')} that the log counts" if stated > self._rows else ""

    def _remarks(self) -> list[str]:
        name = printable(self._source.name)
        remarks = []
        if self._unjudged:
            have = "has" if self._unjudged == 1 else "have"
            remarks.append(
                f"{name}: {self._unjudged:,} of {counted(self._rows, 'row')} {have} no assertions, and so no mark"
            )
        if self._without:
            lack = "lacks" if self._without == 1 else "lack"
            some = f"{self._without:,} of {counted(self._rows, 'row')}"
            remarks.append(f"{name}: {some} {lack} a metric of `scorer=`, and so a mark for it")
        if self._tests.mixed:
            mixed = len(self._tests.mixed)
            items = "1 item stands" if mixed == 1 else f"{mixed:,} items stand"
            remarks.append(
                f"{name}: {items} for tests that differ, which count as repeats; give the "
                "tests an id in their metadata, or name the item with `map=`"
            )
        return remarks


def _asked(row: Row) -> _Asked:
    prompt = row.prompt or Prompt()
    label = (prompt.label if prompt.label is not None else prompt.display) or ""
    provider = row.provider if isinstance(row.provider, Provider) else Provider(id=row.provider)
    identity = provider.id or ""
    return _Asked(row.prompt_idx, row.prompt_id or _digest(label), label, identity, provider.label or identity)


def _names(columns: Mapping[_Asked, str]) -> tuple[dict[str, str], dict[str, str]]:
    """What the prompts and the providers are called, by the code of their column: apart where they are."""
    prompts = {asked.prompt: _label(asked) for asked in columns}
    ids = {asked.model: {other.provider for other in columns if other.model == asked.model} for asked in columns}
    strategies, models = {}, {}
    alike: dict[tuple[str, str], list[tuple[_Asked, str]]] = {}
    for asked, code in columns.items():
        label = prompts[asked.prompt]
        shared = sum(label == other for other in prompts.values()) > 1
        strategies[code] = f"{label} ({asked.prompt[:8]})" if shared else label
        name = asked.model or "unnamed"
        models[code] = f"{name} ({asked.provider})" if len(ids[asked.model]) > 1 else name
        alike.setdefault((strategies[code], models[code]), []).append((asked, code))
    for (_, model), twins in alike.items():
        ordered = sorted(twins, key=lambda twin: -1 if twin[0].place is None else twin[0].place)
        for number, (_, code) in enumerate(ordered, start=1):
            models[code] = f"{model} #{number}" if len(twins) > 1 else model
    return strategies, models


def _label(asked: _Asked) -> str:
    """What a prompt is called; where that would be its text, a few letters of its digest."""
    plain = asked.label.strip()
    short = plain and len(plain) <= _LONGEST_LABEL and plain.isprintable()
    return plain if short else f"prompt {asked.prompt[:8]}"


def _metrics(row: Row) -> dict[str, bool | None]:
    """The metrics of a test, each with whether its assertions held."""
    marks: dict[str, bool | None] = {each.metric: None for each in row.assertions() if each.metric}
    for name, score in (row.named_scores or {}).items():
        marks[name] = {0.0: False, 1.0: True}.get(score) if score is not None else None
    held: dict[str, bool] = {}
    for component in row.components():
        if component.metric and component.passed is not None:
            held[component.metric] = held.get(component.metric, True) and component.passed
    return marks | held


def _target(row: Row, asked: Mapping[str, Any]) -> str | None:
    """What was expected: the variable of that name, else what the one assertion of equality names."""
    if (expected := asked.get("expected")) is not None:
        return _text(expected)
    judged = [each for each in row.components() if each.assertion is not None and each.assertion.type == "equals"]
    rendered = {_text(each.metadata.rendered_assertion_value) for each in judged if each.metadata is not None} - {None}
    stated = [each.value for each in row.assertions() if each.type == "equals"]
    stated = stated or [each.assertion.value for each in judged if each.assertion is not None]
    if len(stated) != 1:
        return None
    if len(rendered) == 1:
        return rendered.pop()
    value = stated[0]
    if isinstance(value, str) and (variable := _VARIABLE.fullmatch(value.strip())):
        value = asked.get(variable[1])
    elif isinstance(value, str) and ("{{" in value or "{%" in value or value.startswith("file://")):
        value = None
    return _text(value)


def _text(value: Any) -> str | None:
    """A value as text: as it is, or as JSON."""
    if value is None or isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (RecursionError, ValueError):
        return None


def _stated(tokens: Tokens | None) -> Tokens:
    """What the row says of tokens, where the provider said nothing itself: zeros are not known."""
    return tokens if tokens is not None and (tokens.prompt or tokens.completion) else Tokens()


def _whole(number: float | None) -> int | None:
    return int(number) if number is not None and number == int(number) else None


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
