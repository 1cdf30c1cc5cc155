"""What is said while models are asked: plain lines where there is no terminal."""

from __future__ import annotations

import pytest

from steelyard.cli import asking_line
from steelyard.runner.tally import Tally


def test_plain_lines_come_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(100))
    monkeypatch.setattr(asking_line.time, "monotonic", lambda: float(next(clock)))
    monkeypatch.setattr(asking_line, "EVERY", 5.0)
    tally = Tally(1_000, done=10, input_tokens=900, output_tokens=100, cost=0.25, failed=2, retries=3)
    with asking_line.asking_line() as watch:
        for _ in range(6):
            watch({"m\x1b[31m": tally})
            tally.done += 10
    lines = capsys.readouterr().err.splitlines()
    assert 1 <= len(lines) <= 3
    first = lines[0]
    assert first.startswith("m\\x1b[31m: ")
    assert "/1,000" in first
    assert "/s" in first
    assert "left" in first
    assert "1,000 tokens, cost 0.25, 2 failed, 3 retries" in first


@pytest.mark.parametrize(("seconds", "text"), [(5, "5 s"), (75, "1 min 15 s"), (7_500, "2 h 5 min")])
def test_spans_of_time_are_short(seconds: float, text: str) -> None:
    assert asking_line._span(seconds) == text
