"""The words of a command line: other spellings of commands, `help`, and what an unknown word may have meant."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer.core

from steelyard.errors import UsageError, printable
from steelyard.halves import whole_text

# groups of commands by the first part of names with a hyphen, where a group here is called differently
_GROUPS = {"posneg": "shift"}
# commands that a name with a hyphen means, where its parts do not say it
_NAMED = {"posneg-run": ("retrieval", "run"), "eval": ("retrieval", "eval")}
SUGGESTED = 3


def _flags_without_value() -> None:
    """Let help show a flag as a flag: the parser would write `<bool>` behind it, as if it took a value."""
    shown = typer.core.TyperOption.display_type_rich

    def display(self: typer.core.TyperOption, ctx: Any) -> str | None:
        return None if self.is_flag else shown(self, ctx)

    typer.core.TyperOption.display_type_rich = display  # type: ignore[method-assign]


if hasattr(typer.core.TyperOption, "display_type_rich"):  # older parsers write nothing there
    _flags_without_value()


class Words(typer.core.TyperGroup):
    """The root of the commands: `runs-compare` is `runs compare`, `help X` explains X, a wrong word gets a hint."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spelled(self, [*map(as_text, args)]))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if ctx.resilient_parsing or self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        raise UsageError(unknown(args[0], list(paths(self))))


class Group(typer.core.TyperGroup):
    """A group of commands; a wrong word is looked for in all groups."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if ctx.resilient_parsing or self.get_command(ctx, args[0]) is not None:
            return super().resolve_command(ctx, args)
        own = [(str(ctx.info_name), *path) for path in paths(self)]
        raise UsageError(unknown(args[0], list(paths(ctx.find_root().command)), own=own))


def as_text(word: str) -> str:
    """A word of the line: bytes that are no UTF-8 stand in what leads to a file only, elsewhere they become escapes."""
    paths = [path for each in (word, word.partition("=")[2]) for path in (each, *map(str, Path(each).parents))]
    leads = any(path != whole_text(path) and os.path.lexists(path) for path in paths)
    return word if leads else whole_text(word)


def paths(group: Any, before: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every command that can be run, by its words."""
    for word, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from paths(command, (*before, word))
        elif not command.hidden:
            yield (*before, word)


def spelled(root: Any, args: Sequence[str]) -> list[str]:
    """The arguments with the command as it is called here; what is no other spelling stays as it is."""
    if not args or args[0].startswith("-"):
        return list(args)
    first, *rest = args
    if first == "help":
        return _helped(root, rest)
    return [*_hyphenated(root, first, rest), *rest]


def _hyphenated(root: Any, word: str, rest: Sequence[str]) -> list[str]:
    if word in root.commands:
        return [word]
    if word in _NAMED:
        # a run of the documented tool applies what was trained
        shifted = word != "posneg-run" or any(each.partition("=")[0] in ("--shift", "--help", "-h") for each in rest)
        return [*_NAMED[word], *([] if shifted else ["--shift", "best"])]
    group, hyphen, name = word.partition("-")
    group = _GROUPS.get(group, group)
    known = getattr(root.commands.get(group), "commands", {})
    return [group, name] if hyphen and name in known else [word]


def _helped(root: Any, words: Sequence[str]) -> list[str]:
    """`help` of a command, of a group, of the only command with this last word, or of a metric."""
    if not words:
        return ["--help"]
    path = [*_hyphenated(root, words[0], ["--help"]), *words[1:]]
    command = root
    for word in path:
        command = getattr(command, "commands", {}).get(word)
        if command is None:
            break
    else:
        return [*path, "--help"]
    ending = [each for each in paths(root) if each[-len(words) :] == tuple(words)]
    if len(ending) == 1:
        return [*ending[0], "--help"]
    if len(words) > 1:
        return [*path, "--help"]
    if _meant(words[0], list(paths(root))) and not _is_metric(words[0]):
        raise UsageError(unknown(words[0], list(paths(root))))
    return ["metrics", *words]


def _is_metric(word: str) -> bool:
    from steelyard.metrics.definition import metric_of

    try:
        metric_of(word)
    except UsageError as problem:
        return "unknown" not in str(problem)
    return True


def unknown(word: str, known: Sequence[tuple[str, ...]], *, own: Sequence[tuple[str, ...]] = ()) -> str:
    """What to say of a word that is no command: the commands that end with it, else those that are spelled nearly so.

    >>> unknown("promote", [("runs", "promote"), ("rank",)])
    "no such command 'promote'; did you mean `steelyard runs promote`?"
    """
    meant = _meant(word, own) or _meant(word, known)
    said = f"no such command '{printable(word, limit=60)}'"
    if not meant:
        return f"{said}; `steelyard --help` lists the commands"
    commands = " or ".join("`steelyard " + " ".join(path) + "`" for path in meant)
    return f"{said}; did you mean {commands}?"


def _meant(word: str, known: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    plain = word.lower().replace("_", "-")
    exact = [path for path in known if plain in (path[-1], "-".join(path))]
    if exact:
        return exact[:SUGGESTED]
    spellings: dict[str, list[tuple[str, ...]]] = {}
    for path in known:
        for spelling in dict.fromkeys(("-".join(path), path[-1], "-".join(reversed(path)))):
            spellings.setdefault(spelling, []).append(path)
    near = difflib.get_close_matches(plain, spellings, n=SUGGESTED, cutoff=0.7)
    return list(dict.fromkeys(path for spelling in near for path in spellings[spelling]))[:SUGGESTED]
