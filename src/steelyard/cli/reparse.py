"""`steelyard reparse`: read the kept replies of a run again, without asking."""

from __future__ import annotations

import sys

from steelyard.cli.command import Shown, as_options, command, say
from steelyard.cli.options import store
from steelyard.cli.options.uncertainty import Intervals


@command(writes="run-result.json")
def reparse(*, run: store.SavedRunId, uncertainty: Intervals, place: store.Place) -> Shown:
    """Read the kept replies of a run again, as they are read today; no model is asked. It becomes a new run.

    Exit codes: 0 done; a gate in the spec sets 1 or 6.
    """
    from steelyard.report.run import run_report
    from steelyard.runner.reparsing import read_again
    from steelyard.runner.run import How
    from steelyard.runner.wire import run_result

    how = How(settings=uncertainty.settings, say=_say, command=("steelyard", *sys.argv[1:]))
    done = read_again(run, place.view, how)
    _say(f"saved run {done.run_id} in {done.folder}, read again from run {done.reparsed_from}")
    return Shown(document=run_result(done), report=lambda: run_report(done), exit_code=done.exit_code)


def _say(message: str) -> None:
    say(as_options(message))
