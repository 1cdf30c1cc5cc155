r"""A document as LaTeX for a paper: booktabs tables, numbers in math, text that came from data taken literally.

The text is a part to \input; its first line names the packages that it needs. Greek letters, arrows and signs are set
in math, so that plain pdflatex takes them; other letters beyond Latin need LuaLaTeX or XeLaTeX.
"""

from __future__ import annotations

import re

from steelyard.errors import printable
from steelyard.report.document import (
    Cell,
    Count,
    Document,
    Heading,
    Measured,
    Note,
    Remarks,
    Span,
    Table,
    Value,
    Verbatim,
    interval_text,
    number,
    text_of,
)
from steelyard.report.figures.figure import Figure
from steelyard.report.formats.contract import report_format

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    "-": "-{}",  # two would become a dash
    "[": "{[}",  # at the beginning of a row it would be an option of the line break before it
    "*": "{*}",  # and so would a star
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "→": r"$\rightarrow$",
    "↳": r"$\hookrightarrow$",
    "−": "$-$",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "≤": r"$\le$",
    "≥": r"$\ge$",
    "∞": r"$\infty$",
    "…": r"\dots{}",
}
_GREEK = dict(
    zip(
        "αβγδεζηθικλμνξπρστυφχψωΓΔΘΛΞΠΣΦΨΩ",
        re.findall(
            "[A-Za-z]+",
            "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi "
            "psi omega Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega",
        ),
        strict=True,
    )
)
_SPECIAL |= {letter: f"$\\{name}$" for letter, name in _GREEK.items()}
_SPECIAL |= {"₂": "$_2$", "²": "$^2$", "≠": r"$\ne$", "≈": r"$\approx$", "√": r"$\surd$", "∑": r"$\sum$", "∈": r"$\in$"}
_SPECIAL |= {"½": r"\textonehalf{}", "′": r"$\prime$", "∩": r"$\cap$", "∪": r"$\cup$", "∫": r"$\int$"}
_SPECIAL |= {"⌊": r"$\lfloor$", "⌋": r"$\rfloor$", "⌈": r"$\lceil$", "⌉": r"$\rceil$"}
_SPECIAL |= {"←": r"$\leftarrow$", "✓": r"$\surd$", "–": "--", "—": "---"}
_WARNING = "warning: "
_ANY = re.compile("|".join(map(re.escape, _SPECIAL)))
_NUMBER = re.compile(r"([+-]?[0-9]+(?:,[0-9]{3})*(?:\.[0-9]+)?)(?:e([+-][0-9]+))?")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./-]+")


@report_format("latex", aliases=("tex",), suffix=".tex", titles=True)
def render(document: Document) -> str:
    """The LaTeX, ending in a newline."""
    pictures = any(isinstance(part, Figure) and part.path is not None for part in document)
    packages = ("booktabs", *(["graphicx"] if pictures else []), "textcomp")
    blocks = [" ".join(["% \\usepackage[T1]{fontenc}", *(f"\\usepackage{{{name}}}" for name in packages)])]
    for part in document:
        if isinstance(part, Heading):
            blocks.append(f"\\subsection*{{{escaped(part.text)}}}")
        elif isinstance(part, Note) and part.text.startswith(_WARNING):
            blocks.append(f"% {printable(part.text, limit=2000)}")  # for the author, not for the reader
        elif isinstance(part, Note):
            blocks.append(f"\\noindent {escaped(part.text)}")
        elif isinstance(part, Verbatim):
            lines = " \\\\\n".join(f"\\mbox{{}}{_literal(line)}" for line in part.lines())
            blocks.append(f"\\begin{{flushleft}}\n\\ttfamily\n{lines}\n\\end{{flushleft}}")
        elif isinstance(part, Figure):
            blocks += [] if part.path is None else [_picture(part.path)]
        elif isinstance(part, Remarks):
            items = "\n".join(f"\\item {escaped(text)}" for text in part.texts)
            blocks.append(f"\\begin{{enumerate}}\n{items}\n\\end{{enumerate}}")
        else:
            blocks.append(_table(part.trimmed()))
    return "\n\n".join(blocks) + "\n"


def escaped(text: str) -> str:
    """Text with everything that LaTeX would read taken literally.

    >>> print(escaped("50% of a_b"))
    50\\% of a\\_b
    """
    return _taken_literally(printable(text, limit=2000))


def _taken_literally(text: str) -> str:
    return _ANY.sub(lambda match: _SPECIAL[match.group()], text)


def _literal(line: str) -> str:
    """A line with the blanks that it begins with."""
    rest = line.lstrip(" ")
    return "~" * (len(line) - len(rest)) + _taken_literally(rest)


def _table(table: Table) -> str:
    alignment = "".join("r" if right else "l" for right in table.aligned_right())
    head = " & ".join(escaped(name) for name in table.columns)
    rows = "\n".join(" & ".join(_cell(cell) for cell in row) + r" \\" for row in table.rows)
    return "\n".join(
        (
            f"\\begin{{tabular}}{{{alignment}}}",
            "\\toprule",
            f"{head} \\\\",
            "\\midrule",
            *([rows] if rows else []),
            "\\bottomrule",
            "\\end{tabular}",
        )
    )


def _cell(cell: Cell) -> str:
    text = text_of(cell)
    if isinstance(cell, Span):
        return _interval(text)
    if isinstance(cell, Measured):
        parts = (_quantity(number(cell.value)), _interval(interval_text(cell.ends)), escaped(cell.marks.text))
        return " ".join(filter(None, parts))
    if isinstance(cell, Value | Count):
        return _quantity(text)
    indented = text.lstrip(" ")
    return ("\\quad " if indented != text else "") + escaped(indented)


def _interval(text: str) -> str:
    """An interval in math; an end that is not known as a word."""
    ends = _NUMBER.sub(_math, text).replace("unknown", "\\mathrm{unknown}")
    return f"${ends}$" if text else ""


def _quantity(text: str) -> str:
    """A number in math, with its unit if any; what is no number as text."""
    digits, _, unit = text.partition(" ")
    match = _NUMBER.fullmatch(digits)
    if match is None:
        return escaped(text)
    return f"${_math(match)}$" + (f"\\,{escaped(unit)}" if unit else "")


def _math(match: re.Match[str]) -> str:
    """A number as it is written in math."""
    digits = match[1].replace(",", "{,}")
    return digits if match[2] is None else f"{digits} \\times 10^{{{int(match[2])}}}"


def _picture(path: str) -> str:
    """The picture itself, or the name of its file where LaTeX could read more in that than a name."""
    if _PLAIN_PATH.fullmatch(path):
        return f"\\includegraphics[width=\\linewidth]{{{path}}}"
    return f"\\noindent picture: {escaped(path)}"
