"""What a page of Markdown comes to, and which characters of a text are seen."""

from __future__ import annotations

import unicodedata

from markdown_it import MarkdownIt

MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def shape(page: str) -> list[str]:
    """Every block and everything inside a line that is not text."""
    return [
        kind.type
        for token in MARKDOWN.parse(page)
        for kind in (token, *(child for child in token.children or () if child.type not in ("text", "text_special")))
    ]


def outside_code(page: str) -> str:
    """The page without what stands between fences, where everything is text."""
    fences = [token.map for token in MARKDOWN.parse(page) if token.type == "fence" and token.map]
    inside = {line for first, last in fences for line in range(first + 1, last - 1)}
    return "\n".join(line for number, line in enumerate(page.split("\n")) if number not in inside)


def visible(page: str) -> bool:
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return not any(unicodedata.category(c) in kinds for c in page if c != "\n")


def number(cell: str) -> bool:
    try:
        float(cell.replace(",", ""))
    except ValueError:
        return not cell
    return True
