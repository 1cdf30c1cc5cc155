"""Formats: a registry that one file adds to, pages that need nothing else, and data that stays data in each of them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from hypothesis import given

import steelyard
from steelyard.errors import UsageError, printable
from steelyard.records.table import Records
from steelyard.report import formats
from steelyard.report.document import (
    Count,
    Document,
    Heading,
    Marks,
    Note,
    Remarks,
    Span,
    Table,
    Value,
    Verbatim,
    Word,
    text_of,
)
from steelyard.report.evaluation import evaluation_report
from steelyard.report.figures.figure import Figure, Line, Panel
from steelyard.report.formats import html, latex
from steelyard.report.formats.contract import formats as registry
from steelyard.report.formats.contract import report_format
from tests.support.hostile import HOSTILE, PAYLOADS, TEXTS
from tests.support.markdown import visible

WORDS = (
    *PAYLOADS, *HOSTILE, "</td></table><script>alert(1)</script>", '" onmouseover="x', "' style='x", "<!-- x", "]]>",
    "&amp;", "\\end{tabular}", "\\input{/etc/passwd}", "^^5cinput", "%", "a & b", "{", "}", "#1", "\\\\[9em]", "?`",
)  # fmt: skip
UNNAMED = ("alt",)  # attributes that hold text


def page(word: str) -> Document:
    rows = ((word, Value(0.5, unit=word), Word(word, "good"), Marks((1,))), ("b", Count(3), Word("x"), word))
    return [
        Heading(word, "bad"),
        Note(word),
        Table((word, "value", "verdict", "notes"), rows),
        Remarks((word, "end")),
        Verbatim("[x]\n  " + word.replace("\n", " ")),  # its lines are lines
    ]


class Seen(HTMLParser):
    """Every tag with its attributes, and the text between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, tuple[tuple[str, str | None], ...]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, tuple((name, None if name in UNNAMED else value) for name, value in attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.tags.append((f"/{tag}", ()))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def attributes(self, name: str) -> list[str]:
        return [value or "" for _, attributes in self.tags for key, value in attributes if key == name]


# -- the registry ------------------------------------------------------------------------------------------------------


@pytest.fixture
def outline() -> Iterator[str]:
    """A format that this file alone defines."""

    @report_format("outline", aliases=("toc",), suffix=".toc")
    def _(document: Document) -> str:
        tables = (part for part in document if isinstance(part, Table))
        return "".join(f"{text_of(row[0])}: {text_of(row[1])}\n" for table in tables for row in table.rows)

    yield "outline"
    registry.remove("outline")


def test_a_format_of_one_file_renders_an_evaluation(outline: str) -> None:
    columns = {"item": list("abcd"), "target": [1, 0, 1, 0], "prediction": [1, 0, 1, 1]}
    report = evaluation_report(steelyard.evaluate(Records.from_columns(columns), ["accuracy"], resamples=0))
    assert formats.render(outline, report) == "accuracy ↑: 0.7500\n"
    assert formats.render("toc", report) == "accuracy ↑: 0.7500\n"
    assert formats.suffix(outline) == ".toc"
    assert "outline" in formats.known()


def test_the_formats_that_are_packaged() -> None:
    assert formats.known() == ("table", "csv", "html", "latex", "markdown")
    assert [formats.suffix(name) for name in formats.known()] == [".txt", ".csv", ".html", ".tex", ".md"]
    assert formats.render("md", [Note("x")]) == formats.render("markdown", [Note("x")]) == "x\n"


def test_a_name_that_is_no_format_says_what_was_meant() -> None:
    with pytest.raises(UsageError, match="unknown format 'htm'; did you mean 'html'"):
        formats.render("htm", [])


def test_names_are_listed_without_heavy_imports() -> None:
    script = (
        "import sys; from steelyard.report.formats import known, render; from steelyard.report.document import Note\n"
        "[render(name, [Note('x')]) for name in known()]\n"
        "print([m for m in ('numpy', 'pyarrow', 'scipy', 'matplotlib', 'msgspec') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- html --------------------------------------------------------------------------------------------------------------


def same_shape(word: str) -> None:
    shown = html.render(page(word))
    assert Seen(shown).tags == Seen(html.render(page("word"))).tags
    assert visible(shown)


@given(TEXTS)
def test_no_tag_or_attribute_comes_from_data(word: str) -> None:
    same_shape(f"x{word}")


@pytest.mark.parametrize("word", WORDS)
def test_hostile_words_stay_words_in_html(word: str) -> None:
    same_shape(word)
    seen = Seen(html.render([Note(word)]))
    assert printable(word) in seen.texts


def test_a_page_needs_nothing_else() -> None:
    line = Line(series="first", x=(0, 1), y=(0, 1), label="<b>")
    figure = Figure(name="n", title="</svg><b>", text='"><b>', panels=((Panel(marks=(line,)),),))
    shown = html.render([*page("word"), figure])
    seen = Seen(shown)
    policies = [dict(attributes) for tag, attributes in seen.tags if tag == "meta" and len(attributes) == 2]
    assert {"http-equiv": "Content-Security-Policy", "content": html.POLICY} in policies
    assert "default-src 'none'" in html.POLICY
    assert not {tag for tag, _ in seen.tags} & {"script", "link", "iframe", "object", "embed", "b", "base", "form"}
    assert all(address.startswith("#") for address in seen.attributes("href"))
    (picture,) = seen.attributes("src")
    assert picture.startswith("data:image/svg+xml;base64,")
    assert "http" not in re.sub(r'src="data:[^"]*"|http-equiv', "", shown)
    assert not [name for _, attributes in seen.tags for name, _ in attributes if name.startswith("on")]


def test_notes_are_found_from_the_row_that_points_to_them() -> None:
    table = Table(("a", "notes"), (("x", Marks((1, 2))),))
    seen = Seen(html.render([table, Remarks(("one", "two")), table, Remarks(("three", "four"))]))
    assert seen.attributes("href") == ["#note-1-1", "#note-1-2", "#note-2-1", "#note-2-2"]
    assert seen.attributes("id") == ["note-1-1", "note-1-2", "note-2-1", "note-2-2"]


def test_numbers_stand_right_and_judged_words_have_their_tone() -> None:
    table = Table(("name", "n", "verdict"), (("x", Count(1234), Word("worse", "bad")),))
    shown = html.render([table])
    assert '<th scope="col" class="number">n</th>' in shown
    assert '<td class="number">1,234</td>' in shown
    assert '<td><span class="bad">worse</span></td>' in shown


def circles(*spans: Span) -> list[str]:
    return Seen(html.render([Table(("a", "i"), tuple(("x", span) for span in spans))])).attributes("cx")


def test_intervals_of_shares_are_drawn_between_0_and_1() -> None:
    assert circles(Span((0.25, 0.75), 0.5), Span((0.0, 0.1), 0.0), Span((0.9, 1.0), 1.0)) == ["48.0", "3.0", "93.0"]


def test_intervals_of_differences_are_drawn_around_0_on_one_scale() -> None:
    spans = Span((-0.1, 0.1), 0.0, signed=True), Span((0.1, 0.2), 0.2, signed=True)
    assert circles(*spans) == ["48.0", "93.0"]


@pytest.mark.parametrize(
    "span", [Span((100.0, 200.0), 150.0), Span((0.1, 0.2)), Span(None, 0.1), Span((0.0, 0.0), 0.0, signed=True)]
)
def test_intervals_without_a_scale_are_text_alone(span: Span) -> None:
    assert circles(span) == []
    assert span.text in html.render([Table(("a", "i"), (("x", span),))])


def test_an_end_that_is_not_known_runs_to_the_edge() -> None:
    seen = Seen(html.render([Table(("a", "i"), (("x", Span((0.5, float("inf")), 0.5)),))]))
    assert seen.attributes("x2") == ["93.0"]


# -- latex -------------------------------------------------------------------------------------------------------------

_TAKEN_LITERALLY = re.compile(
    r"\\text[a-z]+\{\}|\\dots\{\}|\\[{}$&#%_]|\{[\[*]\}|-\{\}|\$(?:\\[a-zA-Z]+|-|[_^]2)\$"
)  # what an escaped text may hold of LaTeX


@given(TEXTS)
def test_latex_takes_text_literally(word: str) -> None:
    assert not set("\\{}$&#%_^~[*") & set(_TAKEN_LITERALLY.sub("", latex.escaped(word)))
    assert visible(latex.escaped(word))


@pytest.mark.parametrize("word", WORDS)
def test_hostile_words_stay_words_in_latex(word: str) -> None:
    shown = latex.render(page(word))
    commands = re.compile(r"\\(?:begin|end|item|input|toprule|midrule|bottomrule|subsection|noindent)\b|\\\\\n")
    assert commands.findall(shown) == commands.findall(latex.render(page("word")))
    assert len(shown.splitlines()) == len(latex.render(page("word")).splitlines())
    assert visible(shown)


def test_tables_are_booktabs_with_numbers_in_math() -> None:
    rows = (
        ("  ↳ a_b ↑", Value(0.0123, signed=True), Span((-0.5, float("inf")), 0.1), Count(1234)),
        ("[x]", Value(1e-7), Span(None), Count(2)),
        ("c", Value(None), Span((0.0, 1.0), 0.5), Count(3)),
        ("d", Value(12.5, unit="%"), Span(None), Count(4)),
    )
    assert latex.render([Table(("name", "value", "95% interval", "n"), rows)]).split("\n\n", 1)[1] == (
        "\\begin{tabular}{lrlr}\n\\toprule\nname & value & 95\\% interval & n \\\\\n\\midrule\n"
        "\\quad $\\hookrightarrow$ a\\_b $\\uparrow$ & $+0.0123$ & $[-0.5000, \\mathrm{unknown}]$ & $1{,}234$ \\\\\n"
        "{[}x] & $1 \\times 10^{-7}$ &  & $2$ \\\\\n"
        "c & n/a & $[0, 1.000]$ & $3$ \\\\\n"
        "d & $12.50$\\,\\% &  & $4$ \\\\\n"
        "\\bottomrule\n\\end{tabular}\n"
    )


def test_only_a_plain_path_is_included_in_latex() -> None:
    def shown(path: str) -> str:
        return latex.render([Figure(name="n", title="t", text="x", panels=(), path=path)])

    assert "\\includegraphics[width=\\linewidth]{gain.png}" in shown("gain.png")
    assert "\\includegraphics" not in shown("a}\\input{b")
