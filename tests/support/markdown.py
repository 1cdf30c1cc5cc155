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


def visible(page: str) -> bool:
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return not any(unicodedata.category(c) in kinds for c in page if c != "\n")


def number(cell: str) -> bool:
    try:
        float(cell.replace(",", ""))
    except ValueError:
        return not cell
    return True
