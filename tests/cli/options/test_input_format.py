"""What people are told about formats at the command line, in the words that they would type."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from steelyard.records.readers import readers
from steelyard.records.reading import Reading, options_of
from tests.support.commands import command

ROWS = [{"item": n, "target": "A", "prediction": "AB"[n % 2]} for n in range(10)]


def value(stdout: str) -> float:
    (estimate,) = json.loads(stdout)["estimates"]
    return float(estimate["value"])


def test_the_help_lists_every_format_that_there_is() -> None:
    listed = options_of(Reading)["format"].help.partition(", each")[0]
    assert sorted(re.split(r", | or ", listed)) == sorted(readers)


def test_errors_name_the_option_as_it_is_spelt(tmp_path: Path) -> None:
    for name, content in {"a.txt": "words", "a.json": '{"version": 2}', "a.dat": '{"item": 1}'}.items():
        (tmp_path / name).write_text(content)
        done = command("evaluate", tmp_path / name)
        assert done.code in (2, 3)
        assert re.search(r"named? .*with --input-format: .*csv", done.stderr), done.stderr
        assert "format=" not in done.stderr


@pytest.mark.parametrize("format", ["json", "csv", "columns"])
def test_standard_input_is_read_as_what_it_is(format: str) -> None:
    texts = {
        "json": json.dumps(ROWS),
        "csv": "item,target,prediction\n" + "".join(f"{','.join(map(str, row.values()))}\n" for row in ROWS),
        "columns": json.dumps({name: [row[name] for row in ROWS] for name in ROWS[0]}),
    }
    done = command("evaluate", "-", "-m", "accuracy", "--resamples", 100, "--format", "json", stdin=texts[format])
    assert (done.code, value(done.stdout)) == (0, 0.5), done.stderr


def test_a_compressed_file_is_evaluated(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl.gz"
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode()))
    done = command("evaluate", path, "-m", "accuracy", "--resamples", 100, "--format", "json")
    assert (done.code, value(done.stdout)) == (0, 0.5), done.stderr
    path.write_bytes(path.read_bytes()[:-4])
    assert command("evaluate", path, "-m", "accuracy").code == 3
    done = command("evaluate", path, "-m", "accuracy", "--resamples", 100, "--salvage")
    assert (done.code, "cut short" in done.stdout) == (0, True)
