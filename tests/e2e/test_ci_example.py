"""The CI example is run as a team would run it: every exit code, and what was printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.places import EXAMPLES

pytestmark = pytest.mark.slow

SCRIPT = EXAMPLES / "ci" / "ci.sh"
SAID = {
    "a no-op change": "the answers are the same in all 240 rows",
    "a real gain": "better by more than eps, and by more than chance",
    "a real loss": "shown to miss the threshold",
    "a rare loss": "out of reach: the value itself is beyond the threshold",
    "a group that is missing": "no rule passes on it: a group has no value",
    "a typo": "the run has no group.site=nroth; did you mean 'north'?",
    "a file that was cut off": "answers/torn.jsonl:240: the last record is incomplete",
    "an embedder": "cannot be reached",
    "a run that was edited": "the file was changed after it was written",
    "back to what was active": "0 earlier runs to go back to",
    "patient data": "is active for accuracy (default); promote another run, or roll back",
    "stopped from outside": "steelyard: error: stopped",
}


def test_the_script_shows_every_exit_code(tmp_path: Path) -> None:
    steelyard = Path(sys.executable).with_name("steelyard")
    environment = {**os.environ, "STEELYARD": str(steelyard), "PYTHON": sys.executable}
    done = subprocess.run(
        ["sh", SCRIPT, tmp_path / "work"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    parts = {
        part.partition("\n")[0]: part.partition("\n")[2] for part in re.split(r"^== ", done.stdout, flags=re.M)[1:]
    }
    found = done.stdout + done.stderr
    codes = set(map(int, re.findall(r"^exit (\d+)$", done.stdout, flags=re.M)))
    assert codes == {0, 1, 2, 3, 4, 5, 6, 143}
    for title, words in SAID.items():
        (body,) = (body for name, body in parts.items() if name.startswith(title))
        assert words in body + done.stderr, title
        assert words in found
    assert "Traceback" not in found
    suite = ElementTree.parse(tmp_path / "work" / "rebuild.xml").getroot()
    assert suite.get("failures") == "0"
    assert "## gate: PASS" in (tmp_path / "work" / "gain.md").read_text()
