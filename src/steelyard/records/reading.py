"""How files of answers are read: one list of options, each with what is said of it.

`read` and whoever hands its options on take them as `**reading: Unpack[Reading]`; the options of commands, the help of
both and the fields of a matrix are made from the same list. Types are texts here, because a command line that shows its
help imports nothing that reads.
"""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, TypeVar, get_args

from steelyard.errors import UsageError, printable
from steelyard.registry import closest

if TYPE_CHECKING:
    import os

    from steelyard.records.conditions import Conditions
    from steelyard.records.task import Task

Labelling = Literal["exact", "strip", "fold"]

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", bound=Mapping[str, object])


@dataclass(frozen=True)
class Option:
    """What kind of value an option takes where it is typed or written in YAML, and what is said of it.

    `text` is one, `column` too; `texts` are one or several, as are `columns`, which may be divided by commas; `pairs`
    are name=value, `conditions` rows to keep; a `file` or `files` are read, too; a `flag` is there or not. `spelling`
    is what it is called outside Python, where that is another name, and `one_of` are the values that there are. What is
    `told` goes with the numbers: `compared` where two runs are to agree in it, `shown` where that makes no difference.
    """

    kind: Literal["text", "texts", "column", "columns", "pairs", "conditions", "file", "files", "flag"]
    help: str
    spelling: str = ""
    one_of: tuple[str, ...] = ()
    told: Literal["", "shown", "compared"] = ""

    def typed(self, name: str) -> str:
        """What the option of this name is called outside Python, with _ for -."""
        return self.spelling or name


class ReadingAsIs(TypedDict, total=False):
    """How a table is read of which every column is kept as it is."""

    format: Annotated[
        "str | None",
        Option(
            "text",
            "csv, tsv, jsonl, json, parquet, arrow, xlsx, inspect, lm-eval, helm, promptfoo, every-eval-ever or phq8, "
            "each also as .gz or .zst; default: by looking.",
            spelling="input_format",
        ),
    ]
    map: Annotated[
        "Mapping[str, str] | None",
        Option("pairs", "Rename columns: item=item_id,repeat=epoch (known=original).", told="shown"),
    ]
    where: Annotated[
        "Conditions | None",
        Option(
            "conditions", 'Keep rows: model=a, race=A,B, "age>=65" (= != < <= > >=); all must hold.', told="compared"
        ),
    ]
    salvage: Annotated[
        "bool", Option("flag", "Keep the whole lines before a torn last one, and say how many.", told="compared")
    ]
    sheet: Annotated[
        "str | None",
        Option(
            "text", "Of a workbook, the sheet to read. Default: the only visible one, or the first.", told="compared"
        ),
    ]
    only: Annotated[
        "Sequence[str] | str",
        Option("columns", "Hold only these columns; where rows are measured, those of the vocabulary, too."),
    ]
    drop: Annotated["Sequence[str] | str", Option("columns", "Do not read these columns.", told="compared")]
    scorer: Annotated[
        "Sequence[str] | str",
        Option(
            "texts",
            "Of a log, the scorer or metric that counts; several are each a task. Default: all.",
            told="compared",
        ),
    ]
    abstain_when: Annotated[
        "Sequence[str] | str",
        Option(
            "texts",
            "Replies in a log that mean declining: noanswer, phrases (both by default), empty, /PATTERN/, never.",
            told="compared",
        ),
    ]


class Reading(ReadingAsIs, total=False):
    """How `read` is asked to read: what `evaluate`, `compare` and gates take where they are given a file or a frame."""

    cluster: Annotated[
        "str | None",
        Option(
            "column", "The column that is resampled as a unit, such as patient. Default: cluster, else task and item."
        ),
    ]
    task: Annotated[
        "Task | Mapping[str, object] | str | os.PathLike[str] | None",
        Option("file", "YAML with labels, range, direction of the task.", spelling="task_file"),
    ]
    labels: Annotated[
        Labelling,
        Option(
            "text",
            "exact; strip (the default): without white space around them; fold: case and a final full stop make no "
            "difference.",
            one_of=get_args(Labelling),
            told="compared",
        ),
    ]
    correct: Annotated[
        str | None,
        Option(
            "text",
            "What says that an answer is right: mark, where whoever scored it left one (the default), or labels, which "
            "are compared.",
            one_of=("mark", "labels"),
            told="compared",
        ),
    ]
    abstain: Annotated[
        "Sequence[str] | str",
        Option("texts", 'A prediction that means declining, such as "I don\'t know".', told="compared"),
    ]
    unparsed: Annotated[
        "Sequence[str] | str",
        Option("texts", "A prediction that means that the reply could not be read.", told="compared"),
    ]
    lexicon: Annotated[
        "Sequence[str] | str",
        Option("files", "A table of clinical terms that metrics of texts know besides their own, or icd10cm."),
    ]


def options_of(kind: Any) -> dict[str, Option]:
    """The options of a way to read, by name."""
    return {name: hint.__metadata__[0] for name, hint in kind.__annotations__.items()}


def stated(reading: Mapping[str, Any], kind: type[R]) -> R:
    """What was said of how to read, without what says nothing; a name that is no option is refused."""
    known = options_of(kind)
    for name in reading:
        if name not in known:
            near = closest(name, list(known))
            hint = f"did you mean `{near}=`?" if near else f"there are: {', '.join(known)}"
            raise UsageError(f"`{printable(name)}=` is no option of reading; {hint}")
    return kind(**{name: value for name, value in reading.items() if value is not None})


def reading_text(reading: Mapping[str, Any], rows: int) -> str:
    """How rows were chosen and read, in a line, as it was typed.

    >>> reading_text({"of": 200, "where": ["prediction=sick"], "labels": "fold"}, 94)
    '94 of 200 rows: prediction=sick; labels fold'
    """
    said = [f"{rows:,} of {reading['of']:,} rows: {' and '.join(reading['where'])}"] if reading.get("where") else []
    for name, value in reading.items():
        if name not in ("of", "where"):
            pairs = [f"{known}={original}" for known, original in value.items()] if isinstance(value, dict) else value
            shown = ", ".join(map(str, pairs)) if isinstance(pairs, list) else "" if pairs is True else str(pairs)
            said.append(f"{name.replace('_', ' ')} {shown}".strip())
    return printable("; ".join(said), limit=400)


def described(kind: Any) -> Callable[[F], F]:
    """Say in a function's docstring which options there are, in place of the word OPTIONS."""

    def decorate(function: F) -> F:
        lines = []
        for name, option in options_of(kind).items():
            first, *rest = textwrap.wrap(option.help, 100)
            lines += [f"{name:<13}{first}", *(f"{'':<13}{line}" for line in rest)]
        function.__doc__ = (function.__doc__ or "").replace("OPTIONS", "\n    ".join(lines))
        return function

    return decorate
