"""`@command`: a function of values becomes a command; what it reads and writes is checked in one place.

A parameter says in its annotation what it is: `READS` names a file that is read, `Writes()` one that is written,
`DOCUMENT` the file for the result document. A parameter whose type is a dataclass of options (a `Bundle`) stands for
all of them. A hidden option is a retired spelling, and its help says what to do instead. The body returns what is to be
shown; nothing is written before every output was checked against every input and every other output.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from steelyard.cli.options.formats import Format, NoPager, Titles, Wide
from steelyard.cli.outputs import check_folder, check_outputs
from steelyard.errors import StorageError, UsageError, printable
from steelyard.ground.commas import pair_text, split_commas
from steelyard.naming import plugins_in
from steelyard.records.reading import Reading, options_of
from steelyard.registry import allow_plugin, closest
from steelyard.retired import deprecated


@dataclass(frozen=True)
class Reads:
    """Marks a parameter that names what is read; `files` are the paths that its text may mean."""

    files: Callable[[Any], Iterable[str | Path]] = lambda given: [given]


@dataclass(frozen=True)
class Writes:
    """Marks a parameter that names what is written: a file, or a folder for files of these names."""

    names: Callable[[], Iterable[str]] | None = None
    document: bool = False  # the result document goes there


@dataclass(frozen=True)
class Plugins:
    """Marks a parameter whose texts may name plug-ins, `module:name`, in the working folder."""


READS, DOCUMENT, PLUGINS = Reads(), Writes(document=True), Plugins()


class Bundle:
    """Options that belong together, which a command takes as one parameter: a dataclass of annotated fields.

    Or any class that says its parameters, and is made of their values by name.
    """

    @classmethod
    def parameters(cls) -> list[inspect.Parameter]:
        hints = get_type_hints(cls, include_extras=True)
        return [keyword(f.name, hints[f.name], f.default) for f in fields(cls)]  # type: ignore[arg-type]


@dataclass(frozen=True)
class Output:
    """What a file holds, and what is said of it once it is written."""

    content: str | bytes
    about: str = ""


@dataclass(frozen=True, kw_only=True)
class Shown:
    """What a command shows: the document for programs, the report for people, and files by the option that asks.

    `reads` are inputs that only the body could know. `afterwards` is called with the format that was printed when
    everything is written; what it writes itself stands in `also_writes`.
    """

    document: Any = None
    report: Any = None  # a report's Document, or a function that makes it where it is asked for
    exit_code: int = 0
    files: Mapping[str, Mapping[Path, str | bytes | Output]] = field(default_factory=dict)
    reads: tuple[str | Path | None, ...] = ()
    also_writes: Mapping[str, Path] = field(default_factory=dict)
    afterwards: Callable[[str], None] | None = None
    unwritten: str = ""  # what is said for people where no file takes the document
    tables: Callable[[Path], Mapping[Path, str]] | None = None  # CSV as several files next to the document, not one


def command(*, writes: str = "", prints: bool = True) -> Callable[[Callable[..., Shown]], Callable[..., int]]:
    """Make a command of a function: `prints` adds `--format`, and `--out FOLDER` for the document and its formats.

    `writes` names the document there; by default it is named after the command: runs-list.json.
    """

    def decorate(body: Callable[..., Shown]) -> Callable[..., int]:
        words = body.__module__.split(".cli.")[-1].split(".")  # a command's module is called as it is
        shape = _Shape(body, words, (writes or f"{'-'.join(words)}.json") if prints else "", prints)

        @wraps(body)
        def run(**given: Any) -> int:
            call = _Call(shape, given)
            call.check()
            shape.say_retired(given)
            shown = body(**shape.arguments(given))
            call.present(shown)
            if shown.exit_code:
                raise typer.Exit(shown.exit_code)
            return 0

        run.__signature__ = inspect.Signature(shape.parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {p.name: p.annotation for p in shape.parameters}
        del run.__wrapped__
        return run

    return decorate


class _Shape:
    """The parameters of a command, bundles spread out, and what each of them is."""

    def __init__(self, body: Callable[..., Any], words: Sequence[str], writes: str, prints: bool) -> None:
        self.words, self.writes, self.prints = words, writes, prints
        self._bundles: dict[str, type[Bundle]] = {}
        self._own: list[str] = []
        self.parameters: list[inspect.Parameter] = []
        hints = get_type_hints(body, include_extras=True)
        for name, parameter in inspect.signature(body).parameters.items():
            hint = hints[name]
            if isinstance(hint, type) and issubclass(hint, Bundle):
                self._bundles[name] = hint
                self.parameters += hint.parameters()
            else:
                self._own.append(name)
                self.parameters.append(keyword(name, hint, parameter.default))
        if writes and "out" not in self._own:
            folder = typer.Option("--out", help="A folder to write the result document to.")
            self.parameters.append(keyword("out", Annotated[Path | None, folder], None))
        if prints:
            self.parameters.append(keyword("format_", Format, None))
            flags = {"wide": Wide, "titles": Titles, "no_pager": NoPager}
            self.parameters += [keyword(name, hint, False) for name, hint in flags.items()]

    def arguments(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """What the body is called with."""
        own = {name: given[name] for name in self._own}
        return own | {
            name: kind(**{p.name: given[p.name] for p in kind.parameters()}) for name, kind in self._bundles.items()
        }

    def say_retired(self, given: Mapping[str, Any]) -> None:
        """Say of every hidden option that was given in which version it will be gone, and what to do instead."""
        for option, mark, value in self.marked(OptionInfo, given):
            if mark.hidden and value:
                spelling = f"{' '.join(self.words)} {option[2:].replace('-', '_')}="
                say(deprecated(spelling, mark.help or "", typed=option))

    def marked(self, kind: type[Any], given: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        """The parameters with a mark of this kind: option, mark and value of those that were given."""
        for parameter in self.parameters:
            for mark in get_args(parameter.annotation)[1:]:
                if isinstance(mark, kind) and given[parameter.name] is not None:
                    yield _option(parameter), mark, given[parameter.name]


def keyword(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """A parameter of a command: its name, its annotation with marks, its default."""
    nothing = default is inspect.Parameter.empty or type(default).__name__ == "_MISSING_TYPE"
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if nothing else default,
        annotation=hint,
    )


def _option(parameter: inspect.Parameter) -> str:
    """What a user calls a parameter."""
    for mark in get_args(parameter.annotation)[1:]:
        # typer takes the first name of an annotated option for its default
        names = (getattr(mark, "default", None), *(getattr(mark, "param_decls", None) or ()))
        named = next((name for name in names if isinstance(name, str) and name.startswith("--")), None)
        if named is not None:
            return named
    return parameter.name


class _Call:
    """One call of a command: what it reads, what it may write, and how it shows what it found."""

    def __init__(self, shape: _Shape, given: Mapping[str, Any]) -> None:
        asked = given["format_"] if shape.prints else "json"
        self.formats = _formats("table" if asked is None else asked)
        self.wide, self.titles, self.no_pager = (bool(given.get(flag)) for flag in ("wide", "titles", "no_pager"))
        out = given.get("out") if shape.writes else None
        if len(self.formats) > 1 and out is None:
            raise UsageError("several formats are written to a folder: name it with --out")
        # every format that is named is written to the folder, next to the document
        self.written = () if out is None or asked is None else tuple(name for name in self.formats if name != "json")
        self.inputs = [path for _, mark, value in shape.marked(Reads, given) for path in _paths(mark, value)]
        self.outputs: dict[str, list[Path]] = {}
        documents: dict[str, Path] = {}
        for option, mark, value in shape.marked(Writes, given):
            if mark.names is not None:
                check_folder(option, value, self.inputs)
            self.outputs[option] = [value] if mark.names is None else [value / name for name in mark.names()]
            if mark.document:
                documents[option] = value
        if out is not None:
            from steelyard.report.formats import canonical, known

            if out.exists() and not out.is_dir():
                raise StorageError(f"cannot write to {printable(out)}: --out is a folder, and this is a file")
            if not out.exists() and canonical(out.suffix.lstrip(".").lower()) in known():
                raise UsageError(f"--out names a folder, and {printable(out)} reads like a file; leave the suffix out")
            check_folder("--out", out, self.inputs)
            if documents:
                raise UsageError(f"{next(iter(documents))} names a file, --out a folder: give one of them")
            target = out / shape.writes
            documents["--out"] = target
            self.outputs["--out"] = [
                *self.outputs.get("--out", ()),
                target,
                *(target.with_suffix(s) for s in self._suffixes()),
            ]
        self.document = next(iter(documents.values()), None)
        allow_plugins(text for _, _, value in shape.marked(Plugins, given) for text in _texts(value))

    def check(self) -> None:
        check_outputs(self.outputs, self.inputs)

    def present(self, shown: Shown) -> None:
        """Check every output again, now that all are known; then write, print, and do what comes afterwards."""
        from steelyard.ground.files import write_files

        named = {option: [*self.outputs.get(option, ()), *files] for option, files in shown.files.items()}
        named |= {option: [path] for option, path in shown.also_writes.items()}
        rendered = dict(self._rendered(shown))
        if rendered and "--out" in self.outputs:
            named["--out"] = [*named.get("--out", ()), *rendered]
        check_outputs({**self.outputs, **{k: dict.fromkeys(v) for k, v in named.items()}}, [*self.inputs, *shown.reads])
        further = {path: given for files in shown.files.values() for path, given in files.items()}
        outputs = {path: given if isinstance(given, Output) else Output(given) for path, given in further.items()}
        write_files({**{path: output.content for path, output in outputs.items()}, **rendered})
        for path, output in outputs.items():
            say(f"wrote {path}{output.about}")
        self._print(shown)
        for path in rendered:
            say(f"wrote {path}")
        if self.document is None and self.formats[0] != "json" and shown.unwritten:
            say(shown.unwritten)
        if shown.afterwards is not None:
            shown.afterwards(self.formats[0])

    def _rendered(self, shown: Shown) -> Iterator[tuple[Path, str]]:
        """The document, and every further format next to it, where a folder or a file is named."""
        from steelyard.ground.json import dumps
        from steelyard.report.formats import suffix

        if self.document is None:
            return
        yield self.document, dumps(shown.document)
        for name in self.written:
            if name == "csv" and shown.tables is not None:
                yield from shown.tables(self.document).items()
            else:
                yield self.document.with_suffix(suffix(name)), self._text(name, shown)

    def _print(self, shown: Shown) -> None:
        if shown.document is None and shown.report is None:
            return
        if self.formats[0] == "table" and shown.report is not None:
            self._show(_report(shown))
        else:
            sys.stdout.write(self._text(self.formats[0], shown))
            sys.stdout.flush()

    def _show(self, report: Any) -> None:
        """Print the report as the terminal has room for it, and say what it has no room for."""
        from steelyard.cli.terminal import standard_output
        from steelyard.report.document import titled
        from steelyard.report.formats.text import laid_out
        from steelyard.report.layout import Style, wrapped

        terminal = standard_output(wide=self.wide, page=not self.no_pager)
        style = Style(bold=terminal.bold, colour=terminal.colour)
        laid = laid_out(titled(report) if self.titles else report, width=terminal.width, style=style)
        more = f"columns not shown: {', '.join(laid.dropped)}; --wide shows them"
        said = "\n".join(["", *wrapped(more, terminal.width), ""]) if laid.dropped else ""
        terminal.show(laid.text + said, sys.stdout)

    def _text(self, format_: str, shown: Shown) -> str:
        from steelyard.ground.json import dumps
        from steelyard.report.formats import render

        if format_ == "json":
            return re.sub(
                r"#(?=#(?:vso)?\[)", r"\\u0023", dumps(shown.document)
            )  # a build server would run it in a log
        return render(format_, _report(shown), titles=self.titles)

    def _suffixes(self) -> list[str]:
        from steelyard.report.formats import suffix

        return [suffix(name) for name in self.written]


def _report(shown: Shown) -> Any:
    """The report, with the library's parameters as options."""
    from steelyard.report.document import Note

    report = shown.report() if callable(shown.report) else shown.report
    return [replace(p, text=as_options(p.text)) if isinstance(p, Note) and not p.literal else p for p in report]


def _formats(text: str) -> tuple[str, ...]:
    """The formats that are asked for, by their own names, each once."""
    from steelyard.report.formats import canonical, known

    names = ("table", "json", *(name for name in known() if name != "table"))
    parts = split_commas(text)
    asked = [canonical(part) for part in parts]
    for name, part in zip(asked, parts, strict=True):
        if name not in names:
            near = closest(part, list(names))
            hint = f"; did you mean '{near}'?" if near else ""
            raise UsageError(f"--format is one of {', '.join(names)}, not '{printable(part)}'{hint}")
    return tuple(dict.fromkeys(asked))


def _paths(mark: Reads, value: Any) -> list[str | Path]:
    """What is read for a value: the files that it names, and the task files next to them."""
    given = value if isinstance(value, list) else [value]
    named = [Path(path) for each in given for path in mark.files(each)]
    return [*named, *(path.parent / file for path in named for file in (f"{path.stem}.task.yaml", ".task.yaml"))]


def _texts(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value)


def allow_plugins(texts: Iterable[str], functions: Iterable[str] = ()) -> None:
    """Let the plug-ins that metrics and rules name, and functions `module:name`, be found in the working folder."""
    named = [*(plugin for text in texts for plugin in plugins_in(text)), *functions]
    with suppress(OSError):  # a folder that is gone holds no plug-in
        for name in named:
            allow_plugin(name.partition(":")[0], os.getcwd())


# -- what is said and written ------------------------------------------------------------------------------------------


_PARAMETER = re.compile(r"`([a-z_]+)=([^`]*)`")
_WORD = re.compile(r"[\w…@%+=:,./-]+")
_OPTIONS = {name: option.spelling for name, option in options_of(Reading).items() if option.spelling}
_OPTIONS["calibrators"] = "calibration"


def as_options(message: str) -> str:
    """A message of the library for people at a command line: its parameters as options.

    >>> as_options("use `align=intersection`, or `allow_in_sample=True`; `fill=` says")
    'use --align intersection, or --allow-in-sample; --fill says'
    >>> as_options('write `map={"item": "question_id"}`')
    'write --map item=question_id'
    """

    def option(match: re.Match[str]) -> str:
        name, value = match[1], _as_pairs(match[2])
        flag = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
        return flag if value in ("", "True") else f"{flag} {value}"

    return _PARAMETER.sub(option, message)


def _as_pairs(value: str) -> str:
    """A mapping as an option takes it, `name=value,name=value`; any other value as it is."""
    if not value.startswith("{"):
        return shell_text(value) if value else value
    try:
        pairs = ",".join(pair_text(str(name), str(meant)) for name, meant in json.loads(value).items())
    except ValueError:
        return value
    return shell_text(pairs)


def shell_text(text: str) -> str:
    """A text as one word of a command line that is to be typed: quoted where a shell would read it differently."""
    if _WORD.fullmatch(text):
        return text
    return f'"{text}"' if "'" in text and not re.search(r'["$`\\!]', text) else shlex.quote(text)


def say(message: str) -> None:
    """Say something next to the result: on standard error, so that pipes stay clean."""
    from steelyard.cli.terminal import width_of

    width, shown = width_of(sys.stderr), printable(message, limit=2000)
    if width is not None:
        lines = textwrap.wrap(shown, width, break_long_words=False, break_on_hyphens=False)  # a path stays whole
        shown = "\n".join(lines)
    sys.stderr.write(shown + "\n")
