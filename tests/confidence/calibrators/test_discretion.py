"""No message about a calibrator shows what stood in the training data or in a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.confidence.calibrators import Calibrator
from steelyard.confidence.calibrators.wire import calibration_document, read_calibrator
from steelyard.errors import SteelyardError
from steelyard.ground.digests import digest_of as content_digest
from steelyard.ground.json import dumps
from steelyard.records.table import Records
from steelyard.study.calibrating import calibrate
from tests.support.commands import command

WORD, NUMBER = "canary", 8675.309
Change = Callable[[dict[str, Any]], Any]


def table(**columns: Any) -> Records:
    """Forty answers; whoever and whatever they are about is a canary."""
    size = 40
    given = {
        "item": [f"{WORD}-item-{i}" for i in range(size)],
        "cluster": [f"{WORD}-person-{i // 2}" for i in range(size)],
        "target": [i % 3 for i in range(size)],
        "prediction": [i % 2 for i in range(size)],
        "signal.token_msp": [0.3 + (i % 7) / 10 for i in range(size)],
        "signal.odd": [NUMBER + i for i in range(size)],
    }
    return Records.from_columns({**given, **columns})


def quiet(message: str) -> None:
    assert message
    assert WORD not in message
    assert "8675" not in message
    assert message.isprintable()


def odd(value: Any) -> dict[str, Any]:
    return {"signal.odd": [value if i == 8 else NUMBER for i in range(40)]}


@pytest.mark.parametrize(
    ("columns", "method", "how"),
    [
        (odd(None), "logistic", {"features": ["odd"]}),
        (odd(NUMBER), "temperature", {"features": ["odd"]}),
        (odd(1e308 * 10), "linear", {"features": ["odd"]}),
        ({"signal.odd": [1e308] * 40}, "linear", {"features": ["odd"]}),
        ({"signal.odd": [WORD] * 40}, "linear", {"features": ["odd"]}),
        ({"signal.verbalized_confidence": [NUMBER] * 40}, "isotonic", {"confidence": "verbalized"}),
        ({"signal.verbalized_confidence": [NUMBER] * 40}, "linear", {"features": ["verbalized_confidence"]}),
        ({"signal.token_energy": [NUMBER] * 40}, "isotonic", {"confidence": "token_energy"}),
        ({"signal.token_pe": [-NUMBER] * 40}, "isotonic", {"confidence": "token_pe"}),
        ({"target": [WORD] * 40, "prediction": [WORD] * 40}, "logistic", {"features": ["odd"]}),
        (
            {"target": [f"{WORD}{i % 3}" for i in range(40)]},
            "logistic",
            {"features": ["odd"], "target": "near_correct"},
        ),
        ({"target": [WORD] * 40}, "linear", {"features": ["odd"], "target": "loss"}),
        ({"target": [None] * 40}, "linear", {"features": ["odd"]}),
        ({"confidence": [NUMBER] * 40}, "temperature", {"confidence": "confidence"}),
    ],
)
def test_fitting_shows_nobody_and_nothing(columns: dict[str, Any], method: str, how: dict[str, Any]) -> None:
    with pytest.raises(SteelyardError) as caught:
        calibrate(table(**columns), method, **how)
    quiet(str(caught.value))


def fitted() -> Calibrator:
    return calibrate(table(), "isotonic", features=["odd"]).calibrator


@pytest.mark.parametrize(
    "other",
    [
        {"signal.odd": [0.5] * 40},
        {"signal.odd": [None] * 40},
        {"signal.odd": [WORD] * 40},
        {"signal.odd": [2 * NUMBER + 0.3] * 40},
    ],
)
def test_applying_shows_nobody_and_nothing(other: dict[str, Any]) -> None:
    with pytest.raises(SteelyardError) as caught:
        fitted().check_scale(table(**other))
    quiet(str(caught.value))


FILES: list[Change] = [
    lambda d: d.update(schema_version=WORD),
    lambda d: d.update(schema_version=NUMBER),
    lambda d: d.update(kind=WORD),
    lambda d: d.update(method=WORD),
    lambda d: d.update(target=WORD),
    lambda d: d.update(target=f"{WORD} - at `$.{WORD}`"),
    lambda d: d.update(parameters=WORD),
    lambda d: d.update(parameters={WORD: WORD}),
    lambda d: d.update(parameters={"x": [NUMBER, NUMBER], "y": [1, 0]}),
    lambda d: d.update(parameters={"x": [NUMBER, f"{WORD}\x1b\n"], "y": [1, 0]}),
    lambda d: d["features"][0].update(source=WORD),
    lambda d: d["features"][0].update(source=f"{WORD}\x1b[31m"),
    lambda d: d["features"][0].update(mean=WORD),
    lambda d: d["features"][0].update(scale=-NUMBER),
    lambda d: d["features"][0].update({WORD: 1}),
    lambda d: d["features"].append(d["features"][0] | {"name": WORD}),
    lambda d: d["provenance"].update(rows=WORD + "?"),
    lambda d: d["provenance"].update(n=NUMBER),
    lambda d: d["metrics"].update(note=[WORD]),
    lambda d: d["metrics"].update(in_sample={WORD: WORD}),
    lambda d: d.update(digest=WORD),
]


@pytest.mark.parametrize("change", FILES)
def test_a_file_that_is_no_calibrator_is_refused_without_being_quoted(tmp_path: Path, change: Change) -> None:
    document = json.loads(dumps(calibration_document(fitted())))
    change(document)
    if document["digest"] != WORD:
        document["digest"] = content_digest(document)
    path = tmp_path / "c.json"
    path.write_text(json.dumps(document))
    with pytest.raises(SteelyardError) as caught:
        read_calibrator(path)
    quiet(str(caught.value))


@pytest.mark.parametrize("content", [b"{" + WORD.encode(), b'{"kind": "canary\xff"}', b"[" * 5000, b'"canary"', b""])
def test_a_file_that_is_no_json_is_refused_without_being_quoted(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(SteelyardError) as caught:
        read_calibrator(path)
    quiet(str(caught.value))


def test_the_command_line_shows_nobody_and_nothing(tmp_path: Path) -> None:
    rows = [
        {"item": f"{WORD}{i}", "cluster": f"{WORD}-person-{i}", "target": i % 2, "prediction": 1,
         "signal": {"odd": NUMBER + i if i != 5 else None}} for i in range(12)
    ]  # fmt: skip
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fit = ("calibrate", "fit", "--input", path, "--output", tmp_path / "c.json", "--method", "linear", "--features")
    done = command(*fit, "odd", root=tmp_path)
    assert (done.code, done.out) == (3, "")
    quiet(done.err.removesuffix("\n"))
    assert "a.jsonl:6: signal.odd: " in done.err
