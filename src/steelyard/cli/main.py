"""`steelyard`: the entry point, its commands, and how failures end.

Only the light parser is imported here; a command imports what it needs when it runs, so that `--help` is immediate.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

from steelyard import __version__
from steelyard.cli import (
    benchmark,
    calibrate,
    compare,
    completing,
    convert,
    doctor,
    evaluate,
    export,
    gate,
    look,
    metrics,
    prompts,
    rank,
    reparse,
    retrieval,
    run,
    runs,
    schema,
    segment,
    selective,
    shift,
    tasks,
)
from steelyard.cli.command import as_options, say
from steelyard.cli.words import Words
from steelyard.errors import InputError, SteelyardError, UsageError, printable

if TYPE_CHECKING:
    from typer import TyperException
else:
    # the root of the parser's errors; typer before 0.28 does not name it
    TyperException = getattr(typer, "TyperException", typer.BadParameter.__mro__[2])

SHOWN_PROBLEMS = 20  # of one file
SOFTWARE_FAULT = 70

app = typer.Typer(
    cls=Words,
    context_settings={"help_option_names": ["-h", "--help"]},
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="How good a model's answers are, how sure we are, and whether it may pass.",
    epilog="`steelyard help NAME` explains a command or a metric. "
    "Exit codes: 0 done, 1 gate failed, 2 usage, 3 bad input, 4 model backend, 5 storage, 6 gate inconclusive.",
)
app.command("run")(run.run)
app.command("reparse")(reparse.reparse)
app.command("doctor")(doctor.doctor)
app.command("tasks")(tasks.tasks)
app.command("prompts")(prompts.prompts)
app.command("evaluate")(evaluate.evaluate)
app.command("benchmark")(benchmark.benchmark)
app.command("look")(look.look)
app.command("convert")(convert.convert)
app.command("export")(export.export)
app.command("compare")(compare.compare)
app.command("gate")(gate.gate)
app.command("rank")(rank.rank)
app.add_typer(retrieval.app, name="retrieval")
app.add_typer(shift.app, name="shift")
app.add_typer(segment.app, name="segment")
app.add_typer(runs.app, name="runs")
app.command("selective")(selective.selective)
app.add_typer(calibrate.app, name="calibrate")
app.command("metrics")(metrics.metrics)
app.command("schema")(schema.schema)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"steelyard {__version__}")
        raise typer.Exit


def _show_completion(shell: str | None) -> None:
    if shell is not None:
        typer.echo(completing.script(_known_shell("--show-completion", shell)))
        raise typer.Exit


def _install_completion(shell: str | None) -> None:
    if shell is not None:
        file = completing.install(_known_shell("--install-completion", shell))
        typer.echo(f"wrote {file}; restart {shell} to use it")
        raise typer.Exit


def _known_shell(option: str, shell: str) -> str:
    if shell not in completing.SHELLS:
        raise UsageError(f"{option} is one of {', '.join(completing.SHELLS)}, not '{printable(shell, limit=60)}'")
    return shell


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    show_completion: Annotated[
        str | None,
        typer.Option(
            "--show-completion",
            callback=_show_completion,
            is_eager=True,
            metavar="SHELL",
            help="Print the script that completes commands, metrics, columns and runs in bash, zsh or fish.",
        ),
    ] = None,
    install_completion: Annotated[
        str | None,
        typer.Option(
            "--install-completion",
            callback=_install_completion,
            is_eager=True,
            metavar="SHELL",
            help="Install that script for bash, zsh or fish.",
        ),
    ] = None,
) -> None:
    """Takes what a model answered and says how good it is, how sure we are, and whether it may pass."""


def main() -> None:
    """Run a command. No traceback reaches a user; the exit code says the class of a failure."""
    signal.signal(signal.SIGTERM, _terminated)
    _open_streams()
    if completing.VARIABLE in os.environ:
        sys.exit(_complete())
    try:
        code = app(standalone_mode=False, prog_name="steelyard")
        sys.stdout.flush()
        sys.exit(code)
    except SteelyardError as problem:
        _take_back()
        others = problem.others if isinstance(problem, InputError) else ()
        for other in others[: SHOWN_PROBLEMS - 1]:
            say(f"also: {as_options(str(other))}")
        _fail(as_options(str(problem)), problem.exit_code)
    except TyperException as problem:
        _refuse(problem)
    except _TerminatedError:
        _fail("stopped", 143)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except BrokenPipeError:
        _discard_output()
        sys.exit(0)
    except OSError as problem:
        _discard_output()
        _fail(f"cannot write the output: {problem.strerror or type(problem).__name__}", 5)
    except MemoryError:
        _fail("out of memory; fewer resamples or a smaller table would fit", 5)
    except Exception as problem:
        if os.environ.get("STEELYARD_DEBUG"):
            raise
        # the message of an unforeseen exception may hold data: only its type is shown
        _fail(
            f"a fault in steelyard itself ({type(problem).__name__}); STEELYARD_DEBUG=1 shows where. Please report it",
            SOFTWARE_FAULT,
        )


def _complete() -> int:
    """Answer a shell that completes a line; it hears nothing of what goes wrong."""
    from contextlib import redirect_stderr

    from typer._completion_classes import completion_init

    completion_init()
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        try:
            app(standalone_mode=False, prog_name="steelyard")
        except (Exception, SystemExit):
            return 0
    return 0


def _refuse(problem: TyperException) -> None:
    """End as the parser says: one line, and where to read more. A command that only shows its help has no message."""
    if not problem.format_message():
        sys.exit(problem.exit_code)
    context = getattr(problem, "ctx", None)
    more = f"; `{context.command_path} --help` lists what it takes" if context is not None else ""
    _fail(problem.format_message().rstrip(".") + more, problem.exit_code)


def _take_back() -> None:
    """Remove what a command made to look for runs; a command that never looked has nothing to remove."""
    looked = sys.modules.get("steelyard.runs.index")
    if looked is not None:
        looked.take_back()


def _open_streams() -> None:
    """Standard output and error that can be written to, whatever the caller closed and whatever the encoding."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - stays open for the process's life
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _discard_output() -> None:
    """Let nothing more be written, so that no second failure follows at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _TerminatedError(BaseException):
    """The process was asked to end; nothing but `main` is to notice."""


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise _TerminatedError  # nothing is written here: the signal may have come in the middle of a write


def _fail(message: str, code: int) -> None:
    sys.stderr.write(f"steelyard: error: {printable(message, limit=2000)}\n")
    sys.exit(code)
