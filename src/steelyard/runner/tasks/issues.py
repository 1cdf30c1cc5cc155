"""Issues of a tracker: generated from a seed, or read from a table that a tracker exported.

A generated issue depends on the seed and on its number alone. Its label follows from its text by a rule, and everything
else in the text is chance: who asks how politely, what it happened after, on how many machines.

    bug     what happens decides on its priority, and where that leaves two, what the reporter says of it:
            Critical   data are lost, mixed up or open to strangers, money is wrong, or nobody can work
            Major      something fails and there is no way around it, or is slow for everybody
            Minor      something fails and there is a way around it, or is slow for a few people
            Trivial    something looks wrong, and works
    story   its parts have weights, 1, 2, 3, 5, 8 or 13, by what has to be done; story points are their sum, rounded up
            to the next number of the scale 1, 2, 3, 5, 8, 13, 21, 34, 55

A table has the columns `issue_key` (of estimates it may lack), `title`, `description`, and `priority` or
`story_points`; `project` and `component` are used where they are there, else the project is what an issue key begins
with. A row without a title, or without what is to be answered, is left out and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal

from steelyard.errors import InputError
from steelyard.ground.chance import Chance
from steelyard.records.sources import Source
from steelyard.records.table import Records
from steelyard.runner.tasks.contract import DataSpec, Target
from steelyard.runner.tasks.rows import ids_of, values_of

GENERATED = 200  # issues, where it is not said how many
PRIORITIES = ("Critical", "Major", "Minor", "Trivial")
SCALE = (1, 2, 3, 5, 8, 13, 21, 34, 55)
Asked = Literal["priority", "story_points"]


@dataclass(frozen=True, kw_only=True)
class Issue:
    """What a tracker holds of an issue; `answer` is its priority or its story points."""

    id: str | int
    title: str
    description: str | None
    answer: Target
    project: str | None = None
    component: str | None = None
    reason: str | None = None

    @property
    def groups(self) -> dict[str, str]:
        """What it may be compared by."""
        known = {"project": self.project, "component": self.component}
        return {name: value for name, value in known.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Issues:
    """Issues, and how many rows are none."""

    issues: tuple[Issue, ...]
    left_out: Mapping[str, int]
    warnings: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()


# -- generated ---------------------------------------------------------------------------------------------------------

# project, component, what people do with it, what it holds
_PARTS = (
    ("ATLAS", "routing", "planning a route", "saved routes"),
    ("ATLAS", "search", "searching for a place", "favourite places"),
    ("ATLAS", "offline", "downloading a map", "downloaded maps"),
    ("LEDGER", "invoices", "sending an invoice", "invoices"),
    ("LEDGER", "banking", "importing a bank statement", "bookings"),
    ("LEDGER", "reports", "printing the annual report", "reports"),
    ("PULSE", "calendar", "moving an appointment", "appointments"),
    ("PULSE", "reminders", "sending a reminder", "reminders"),
    ("PULSE", "waiting-list", "adding somebody to the waiting list", "waiting lists"),
    ("QUILL", "editor", "pasting a table", "drafts"),
    ("QUILL", "comments", "answering a comment", "comments"),
    ("QUILL", "export", "exporting a document", "documents"),
)
_GRAVE = (
    ("{Things} are lost", "After {doing}, {things} that were saved before are gone and cannot be restored",
     "data are lost"),
    ("{Things} of two customers are mixed up", "{Doing} overwrites {things} of another customer", "data are mixed up"),
    ("{Things} can be read without signing in", "Anybody who knows the address can read {things} without signing in",
     "data are open to strangers"),
    ("Customers are charged twice", "{Doing} charges the customer twice, and the second charge is not shown",
     "money is wrong"),
    ("Nobody can sign in", "Since this morning signing in ends with an internal error for all, so nobody can work",
     "nobody can work"),
    ("The service is down", "The whole service has stopped answering after {doing}; no page opens for anybody",
     "nobody can work"),
)  # fmt: skip
_FAILING = (
    ("{Doing} ends with an error", "{Doing} ends with the message that something went wrong"),
    ("{Doing} does nothing", "When I press the button, {doing} does not begin; nothing happens at all"),
    ("Blank page when {doing}", "{Doing} leads to a blank page"),
    (
        "{Doing} leaves out the last entry",
        "{Doing} works, but the last of the {things} is always missing from the result",
    ),
    ("Wrong language when {doing}", "{Doing} answers in a language that was never chosen, and the choice is ignored"),
)
_SLOW = (
    ("{Doing} is slow", "{Doing} takes {seconds} seconds, where it took one before"),
    ("Long wait for {things}", "The list of {things} appears only after {seconds} seconds"),
)
_LOOKS = (
    ("Misspelt word above {things}", "There is a spelling mistake in the heading above {things}"),
    ("Icon is out of line", "The icon next to {things} is a few pixels too low"),
    ("Colours differ", "The page for {doing} has a slightly different blue than all other pages"),
    ("Full stop is missing", "The hint that is shown before {doing} lacks its full stop, unlike all other hints"),
    ("Too much space below {things}", "There is too much white space below the list of {things}"),
)
_AROUND = (
    "Doing it a second time helps.",
    "The old dialog still works, so we use that one.",
    "It can be avoided by working in another browser.",
    "We get there through the menu instead.",
)
_NO_WAY = ("We have found no way around it.", "There is no workaround that we know of.", "Nothing that we tried helps.")
_EVERYBODY = ("All of our {many} users see it.", "It is so for everybody, on all {many} machines.")
_A_FEW = ("Only {few} of our {many} users see it.", "It is so for {few} people; the other {many} notice nothing.")
_WHEN = (
    "It began after the update to version 4.{minor}.",
    "It is so in the mobile application and in the browser.",
    "I can repeat it with a new account.",
    "It happens on a slow connection too.",
    "I tried it {few} times on {few} machines.",
    "My colleague has seen it as well.",
)
_TONE = (
    "",
    "",
    "Please fix it soon.",
    "This is very urgent for us!",
    "It is not urgent for us.",
    "Thank you.",
    "Best regards",
)
_SHARES = ((0.18, "Critical"), (0.50, "Major"), (0.82, "Minor"), (1.0, "Trivial"))

_WORK = (
    (1, "The label above {things} is reworded."),
    (1, "A default setting for {doing} changes."),
    (2, "One more field is checked when {doing}."),
    (2, "An entry is written to the log when {doing}."),
    (3, "A new page lists {things}, and can be sorted."),
    (3, "A new report sums up {things} by month."),
    (5, "{Things} are exchanged with a partner's system over its interface."),
    (5, "People are told by mail when somebody else changes {things}."),
    (8, "Existing {things} are converted to a new form without downtime."),
    (8, "{Doing} works without a connection, and is synchronised later."),
    (13, "A second way to sign in is supported in every part of the product."),
    (13, "The rights of every user are checked anew wherever {things} are shown."),
)
_COUNTS = (1, 1, 1, 1, 2, 2, 2, 3, 4, 6)  # of a story's parts


def generated_bug(seed: int, number: int, *names: str | int) -> Issue:
    """A bug that was reported, with its priority; with `names`, another one of the same number."""
    chance = Chance(seed, "bug", number, *names)
    project, component, doing, things = chance.pick(_PARTS)
    share = chance.share()
    priority = next(label for most, label in _SHARES if share < most)
    said, reason = _of_priority(priority, chance)
    words = _words(doing, things, chance)
    told = [*said[1:], *chance.shuffled(_WHEN)[: 1 + chance.below(2)], chance.pick(_TONE)]
    return Issue(
        id=f"{project}-{number}",
        title=_filled(said[0], words),
        description=" ".join(_filled(part, words) for part in told if part),
        answer=priority,
        project=project,
        component=component,
        reason=f"{_filled(reason, words)}: {priority}.",
    )


def _of_priority(priority: str, chance: Chance) -> tuple[list[str], str]:
    """A title and sentences from which a priority follows, and why it does."""
    if priority == "Critical":
        title, what, why = chance.pick(_GRAVE)
        return [title, f"{what}."], why.capitalize()
    if priority == "Trivial":
        title, what = chance.pick(_LOOKS)
        return [title, f"{what}."], "It looks wrong, and everything works"
    major = priority == "Major"
    if chance.share() < 0.3:
        title, what = chance.pick(_SLOW)
        why = f"It is slow for {'everybody' if major else 'a few people'}"
        return [title, f"{what}.", chance.pick(_EVERYBODY if major else _A_FEW)], why
    title, what = chance.pick(_FAILING)
    why = f"It fails, and there is {'no' if major else 'a'} way around it"
    return [title, f"{what}.", chance.pick(_NO_WAY if major else _AROUND)], why


def generated_story(seed: int, number: int) -> Issue:
    """A story that is to be estimated, with its story points."""
    chance = Chance(seed, "story", number)
    project, component, doing, things = chance.pick(_PARTS)
    parts = chance.shuffled(_WORK)[: chance.pick(_COUNTS)]
    weights = [weight for weight, _ in parts]
    points = points_of(weights)
    words = _words(doing, things, chance)
    role = chance.pick(("a customer", "a team leader", "somebody in support", "an administrator", "an auditor"))
    wish = f"As {role} I want {doing} to be easier, so that I spend less time on {things}."
    return Issue(
        id=f"{project}-{number}",
        title=_filled(chance.pick(("Make {doing} easier", "Improve {things}", "Next step for {things}")), words),
        description=" ".join([wish, *(_filled(text, words) for _, text in parts)]),
        answer=points,
        project=project,
        component=component,
        reason=f"{' + '.join(map(str, weights))} = {sum(weights)}, on the scale {points}.",
    )


def points_of(weights: Sequence[int]) -> int:
    """The story points of parts: the first number of the scale that their sum does not exceed.

    >>> points_of([1, 3, 8])
    13
    """
    return next(points for points in SCALE if points >= min(sum(weights), SCALE[-1]))


def _words(doing: str, things: str, chance: Chance) -> dict[str, Any]:
    many = 40 + 20 * chance.below(100)
    return {
        "doing": doing,
        "Doing": doing[0].upper() + doing[1:],
        "things": things,
        "Things": things[0].upper() + things[1:],
        "seconds": 8 + chance.below(40),
        "many": many,
        "few": 2 + chance.below(8),
        "minor": 1 + chance.below(9),
    }


def _filled(text: str, words: Mapping[str, Any]) -> str:
    return text.format_map(words)


# -- read --------------------------------------------------------------------------------------------------------------


def read_issues(data: DataSpec, asked: Asked) -> Issues:
    """The issues of a table that have a title and what is asked."""
    records = data.read()
    for column in ("title", asked, *(("issue_key",) if asked == "priority" else ())):
        if column not in records:
            raise InputError(records.lacks(column, "an issue"))
    ids: Sequence[str | int] = ids_of(records, "issue_key") if "issue_key" in records else range(1, len(records) + 1)
    titles, descriptions, projects, components = (
        _texts(records, name) for name in ("title", "description", "project", "component")
    )
    answers = (_priorities if asked == "priority" else _story_points)(records)
    left_out: Counter[str] = Counter()
    issues = []
    for row, title in enumerate(titles):
        answer = answers[row]
        if title is None or answer is None:
            left_out["no title" if title is None else f"no {asked.replace('_', ' ')}"] += 1
            continue
        issues.append(
            Issue(
                id=ids[row],
                title=title,
                description=descriptions[row],
                answer=answer,
                project=projects[row] or _project(ids[row]),
                component=components[row],
            )
        )
    return Issues(
        issues=tuple(issues), left_out=dict(left_out), warnings=tuple(records.warnings), sources=tuple(records.sources)
    )


def _texts(records: Records, column: str) -> list[str | None]:
    if column not in records:
        return [None] * len(records)
    return [None if value is None else str(value).strip() for value in values_of(records, column)]


def _project(key: str | int) -> str | None:
    """What the key of an issue begins with: USERGRID of USERGRID-16."""
    name, dash, _ = str(key).rpartition("-")
    return name if dash and name else None


def _priorities(records: Records) -> list[Target | None]:
    known = {priority.casefold(): priority for priority in PRIORITIES}

    def priority(value: Any) -> str | None:
        return known.get(" ".join(str(value).casefold().split()))

    return _answers(records, "priority", priority, f"{', '.join(PRIORITIES[:-1])} or {PRIORITIES[-1]} is expected")


def _story_points(records: Records) -> list[Target | None]:
    def points(value: Any) -> float | None:
        if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value) or value < 0:
            return None
        return int(value) if value == int(value) else value

    return _answers(records, "story_points", points, "a number from 0 up is expected")


def _answers(records: Records, column: str, read: Callable[[Any], Target | None], expected: str) -> list[Target | None]:
    """A column's values as `read` makes them, None where a cell is empty; anything else is an error."""
    found: list[Target | None] = []
    for row, value in enumerate(values_of(records, column)):
        answer = None if value is None else read(value)
        if value is not None and answer is None:
            file, line = records.where(row)
            said = f"{expected}; `where` in the spec's data leaves other rows out"
            raise InputError(said, file=file, line=line, field=column)
        found.append(answer)
    return found
