"""Which of two issues comes first: A or B, the one whose priority is higher.

Two issues of the same priority are never asked about, and an issue is in one pair only, so that a pair is a cluster of
its own. A comes first in one pair and B in the next: whoever always says A is right in half of them. Generated pairs
depend on the seed and on their number; a table (issue_key, title, description, priority) is paired within its projects,
and what is left without a partner is counted. Groups are the project, and `gap`: by how many steps the two differ.

Where options are listed in another order, so are the two issues; A stays A.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from steelyard.errors import InputError
from steelyard.ground.chance import lot
from steelyard.runner.tasks.contract import DataSpec, Item, Items, Label, sampled, tasks, too_few
from steelyard.runner.tasks.issues import GENERATED, PRIORITIES, Issue, generated_bug, read_issues
from steelyard.runner.tasks.prompts import Prompt, shipped

NO_PARTNER = "no issue of another priority is left to compare with"
_FIELDS = ("title", "description")
Pair = tuple[Issue, Issue]  # the one that comes first, and the other


@dataclass(frozen=True, kw_only=True)
class Prioritization:
    """Which of two issues comes first."""

    name: str = "prioritization_jira"
    about: str = "which of two issues comes first: A or B"
    labels: tuple[Label, ...] = ("A", "B")
    spellings: Mapping[str, Label] = field(
        default_factory=lambda: {f"{word} {label}": label for word in ("issue", "option") for label in "AB"}
    )
    may_decline: bool = False
    range: tuple[float, float] | None = None
    direction: str | None = None

    @property
    def prompt(self) -> Prompt:
        return shipped(__package__, self.name)

    def items(self, data: DataSpec | None, *, size: int | None, seed: int) -> Items:
        """Pairs of a table's issues, at most `size` of them; or as many generated ones, by default 200."""
        if data is None:
            pairs = [_generated(seed, number) for number in range(GENERATED if size is None else size)]
            items = tuple(_item(number, pair) for number, pair in enumerate(pairs))
            return Items(items=items)
        found = read_issues(data, "priority")
        pairs = _paired(found.issues, seed)
        if not pairs:
            raise InputError("no two issues of one project differ in priority: there is no pair", file=data.path)
        items = sampled([_item(number, pair) for number, pair in enumerate(pairs)], size, seed)
        alone = len(found.issues) - 2 * len(pairs)
        return Items(
            items=items,
            left_out={**found.left_out, **({NO_PARTNER: alone} if alone else {})},
            warnings=(*found.warnings, *too_few(items, size, "pairs")),
            sources=found.sources,
        )

    def background(self) -> str:
        return shipped(__package__, f"{self.name}_background").text({})

    def context(self) -> str:
        return shipped(__package__, f"{self.name}_context").text({})

    def question(self, item: Item) -> str:
        order = item.options or self.labels
        issues = [{"name": label} | {name: item.fields[f"{name}_{label}"] for name in _FIELDS} for label in order]
        return self.prompt.text({"issues": issues})

    def shown(self, item: Item) -> Mapping[str, Any]:
        return {f"{name}_{label}": item.fields[f"{name}_{label}"] for label in self.labels for name in _FIELDS}


def _generated(seed: int, number: int) -> Pair:
    """Two bugs of one number, drawn until they differ in priority."""
    first = generated_bug(seed, 2 * number + 1)
    drawn = (generated_bug(seed, 2 * number + 2, again) for again in count())
    other = next(bug for bug in drawn if bug.answer != first.answer and bug.project == first.project)
    return _in_order(first, other)


def _paired(issues: Sequence[Issue], seed: int) -> list[Pair]:
    """Within every project, as many pairs as can be: always of the two priorities that have most issues left."""
    projects: dict[str | None, dict[Any, list[Issue]]] = defaultdict(lambda: defaultdict(list))
    for issue in sorted(issues, key=lambda each: lot(seed, each.id)):
        projects[issue.project][issue.answer].append(issue)
    pairs = []
    for waiting in projects.values():
        while True:
            most = sorted(waiting.values(), key=len, reverse=True)[:2]
            if len(most) < 2 or not most[1]:
                break
            pairs.append(_in_order(most[0].pop(), most[1].pop()))
    return sorted(pairs, key=lambda pair: lot(seed, pair[0].id, pair[1].id))


def _in_order(one: Issue, other: Issue) -> Pair:
    return (one, other) if _rank(one) < _rank(other) else (other, one)


def _rank(issue: Issue) -> int:
    return PRIORITIES.index(str(issue.answer))


def _item(number: int, pair: Pair) -> Item:
    """A pair, in which the one that comes first is A where the number is even."""
    urgent, other = pair
    a, b = pair if number % 2 == 0 else (other, urgent)
    fields = {f"{name}_{label}": getattr(issue, name) for label, issue in (("A", a), ("B", b)) for name in _FIELDS}
    project = {} if urgent.project is None else {"project": urgent.project}
    reason = f"{urgent.answer} comes before {other.answer}." if urgent.reason else None
    return Item(
        id=f"{a.id}+{b.id}",
        fields=fields,
        target="A" if a is urgent else "B",
        cluster=f"{a.id}+{b.id}",
        groups={**project, "gap": _rank(other) - _rank(urgent)},
        reason=reason,
    )


tasks.add("prioritization_jira", Prioritization())
