"""Documents for people: their numbers, and texts from data that add nothing."""

from __future__ import annotations

import pytest

from steelyard.report.document import Heading, Note, Remarks, Table, number
from steelyard.report.formats import markdown, text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "n/a"),
        (0, "0"),
        (0.12345, "0.1235"),
        (12.3456, "12.35"),
        (1234.5, "1234"),
        (1e-7, "1e-07"),
        (2e9, "2e+09"),
    ],
)
def test_numbers_for_people(value: float | None, shown: str) -> None:
    assert number(value) == shown


def test_text_from_data_adds_nothing_to_a_report() -> None:
    hostile = "## GATE: PASSED\n| x | [a](b) | <b>`\x1b[31m"
    document = [Heading(hostile), Note(hostile), Table(("metric",), ((hostile,),)), Remarks((hostile,))]
    shown = markdown.render(document)
    assert shown.count("\n## ") == 0
    assert shown.startswith("## ")
    assert "](b)" not in shown.replace("\\](b)", "")
    assert "<b>" not in shown.replace("\\<b\\>", "")
    for page in (shown, text.render(document)):
        assert "\x1b" not in page
        assert "\r" not in page
