"""Whatever stands in the data, a report has the shape that its document has: as text, Markdown and CSV."""

from __future__ import annotations

import csv as reader
import io

import pytest
from hypothesis import given

from steelyard.errors import printable
from steelyard.report.document import Document, Heading, Note, Remarks, Table, Verbatim
from steelyard.report.figures.figure import Figure
from steelyard.report.formats import csv, markdown, text
from tests.support.hostile import HOSTILE, TEXTS
from tests.support.markdown import MARKDOWN, number, shape, visible


def document(word: str) -> Document:
    table = Table(("fact", word), (("a", word), (word, "b")), frozenset({"b"}))
    figure = Figure(name="f", title=word, text=word, panels=(), path=word)
    return [Heading(word), Note(word), table, Remarks((word, word)), figure, Note("end")]


@given(TEXTS)
def test_markdown_has_the_shape_of_the_document(word: str) -> None:
    shown = markdown.render(document(f"x{word}"))
    assert shape(shown) == shape(markdown.render(document("word")))
    assert visible(shown)


@pytest.mark.parametrize("word", HOSTILE)
def test_a_line_may_begin_with_anything(word: str) -> None:
    shown = markdown.render([Note(word), Remarks((word,)), Table((word, "b"), ((word, "c"),)), Note("end")])
    plain = markdown.render([Note("x"), Remarks(("x",)), Table(("x", "b"), (("x", "c"),)), Note("end")])
    assert shape(shown) == shape(plain)
    assert len(shown.splitlines()) == len(plain.splitlines())


def test_markdown_shows_the_text_as_it_is() -> None:
    for word in ("- x", "1. x", "a|b", "a\\|b", "*x* & <b> [y](z) ~ $1$ _u_", "=== 3.5 (2)"):
        (line,) = (token for token in MARKDOWN.parse(markdown.render([Note(word)])) if token.type == "inline")
        assert "".join(child.content for child in line.children or ()) == word


@given(TEXTS)
def test_what_is_verbatim_is_shown_line_by_line_and_whole(word: str) -> None:
    given = f"[user]\n\n  {word}" + 3000 * "x"
    whole = [printable(line, limit=None) for line in given.split("\n")]
    assert text.render([Verbatim(given)]) == "\n".join(whole) + "\n"
    read = MARKDOWN.parse(markdown.render([Heading("h"), Verbatim(given), Note("end")]))
    (code,) = (token.content for token in read if token.type == "fence")
    assert code == "\n".join(whole) + "\n"
    assert [token.content for token in read if token.type == "inline"] == ["h", "end"]


@given(TEXTS)
def test_plain_text_keeps_its_lines(word: str) -> None:
    shown = text.render(document(word))
    assert visible(shown)
    assert len(shown.splitlines()) == len(text.render(document("word")).splitlines())


@given(TEXTS)
def test_csv_keeps_its_cells_and_runs_nothing(word: str) -> None:
    shown = csv.render(document(word))
    assert visible(shown)
    rows = list(reader.reader(io.StringIO(shown), strict=True))
    assert [len(row) for row in rows] == [2, 2, 2]
    assert not any(cell.lstrip()[:1] in tuple("=+-@＝＋－＠") for row in rows for cell in row if not number(cell))


@pytest.mark.parametrize("cell", ["-0.5", "+0.0123", "1,234", "-1,234.5", "1e-07", "-2e+09", "0", "n/a", "[-0.1, 0.2]"])
def test_numbers_and_intervals_stay_as_they_are(cell: str) -> None:
    assert csv.safe(cell) == cell


def test_csv_cuts_nothing_and_keeps_ranges_readable() -> None:
    assert csv.safe("x" * 5000) == "x" * 5000
    assert csv.safe("-0.01 to 0.02") == "'-0.01 to 0.02"
    assert csv.safe("٣") == "٣"
    assert csv.safe("-٣") == "'-٣"
