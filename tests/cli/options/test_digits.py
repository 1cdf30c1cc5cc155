"""Numbers in the text of an option are written as rules write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import command

TEXTS = {
    "allow": ("gate", "a.jsonl", "--rule", "accuracy >= 0", "--allow", "failed={}"),
    "a point of the grid": ("selective", "--input", "a.jsonl", "--coverage-grid", "0.1,{}"),
    "a weight": ("benchmark", "suite.yaml", "a.jsonl", "--combined-weights", "safety={}"),
    "what fills": ("calibrate", "fit", "--input", "a.jsonl", "--method", "linear", "--features", "confidence", "--fill",
                   "confidence={}", "--output", "c.json"),
}  # fmt: skip


@pytest.mark.parametrize("number", ["٠.٥", "０.５", "1_0", "0.5٨"])
@pytest.mark.parametrize("asked", TEXTS)
def test_numbers_in_options_are_written_in_the_digits_0_to_9(tmp_path: Path, asked: str, number: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"item": "1", "target": "a", "prediction": "a", "confidence": 0.5}\n')
    (tmp_path / "suite.yaml").write_text(
        "{name: s, tasks: [{name: t, type: qa, data: cases.jsonl, metrics: [accuracy]}]}"
    )
    (tmp_path / "cases.jsonl").write_text('{"id": "1", "target": "a"}\n')
    done = command(*(text.format(number) for text in TEXTS[asked]), cwd=tmp_path, root=tmp_path / "store")
    assert done.code == 2, done.err
    assert "number" in done.err or "a share of the rows" in done.err
