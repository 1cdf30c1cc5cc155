"""Half a character becomes its escape where text enters."""

from __future__ import annotations

import json
import re

from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.ground.json_places import members_at
from steelyard.halves import mended, whole, whole_text

LETTERS = st.text(st.sampled_from('a"\\u/nd8\n\ud83d\ud800\udbff\ude00\udc00\udfffé😀'), max_size=12)
VALUES = st.recursive(
    LETTERS | st.text(st.characters(exclude_categories=()), max_size=4) | st.integers() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(LETTERS, inner, max_size=3),
    max_leaves=8,
)


def upper(text: str) -> str:
    """The same JSON with capital digits in its escapes."""
    return re.sub(r"\\(?:u(....)|.)", lambda m: f"\\u{m[1].upper()}" if m[1] else m[0], text)


@given(VALUES, st.booleans(), st.booleans())
@example("\ud800", False, True)
@example("\\ud800", False, False)
@example("\\\ud800", False, False)
@example("\ud83d\\\ude00", False, False)
@example(["\ud83d", "\ude00"], False, False)
@example("\ude00\ud83d\ud83d\ude00", True, True)
def test_json_is_mended_as_its_strings_are(value: object, escaped: bool, capital: bool) -> None:
    raw = json.dumps(value, ensure_ascii=True)
    if not escaped:  # what UTF-8 can hold stands as it is
        raw = re.sub(r"\\(?:u00e9|.)", lambda m: "é" if len(m[0]) > 2 else m[0], raw, flags=re.DOTALL)
    raw = upper(raw) if capital else raw
    assert json.loads(mended(raw.encode())) == whole(json.loads(raw))


@given(st.binary(max_size=20) | st.text(st.sampled_from('\\ud8Dc0"a'), max_size=24).map(str.encode))
def test_what_is_no_json_stays_none_and_nothing_but_backslashes_is_added(raw: bytes) -> None:
    done = mended(raw)
    assert mended(done) == done
    assert done.replace(b"\\", b"").lower() == raw.replace(b"\\", b"").lower()
    if not re.search(rb"\\u[dD][89a-fA-F]", raw):
        assert done is raw


@given(st.text(st.characters(exclude_categories=())))
def test_a_whole_text_is_utf_8_and_an_ordinary_one_the_same(text: str) -> None:
    done = whole_text(text)
    assert done.encode().decode() == done
    if not any(0xD800 <= ord(c) <= 0xDFFF for c in text):
        assert done is text
    assert whole_text(done) is done


def test_every_half_is_written_as_json_writes_it() -> None:
    for code in range(0xD800, 0xE000):
        assert json.dumps(chr(code)) == f'"{whole_text(chr(code))}"'


def test_two_halves_that_stand_together_are_one_character() -> None:
    assert whole_text("\udd94\ud83e\udd94\ud83e") == "\\udd94🦔\\ud83e"


def test_objects_in_a_reply_are_whole_and_their_places_those_of_the_reply() -> None:
    text = r'{"a\ud800": ["\udfff", "\\ud800"]}'
    members, end = members_at(text, 0) or ({}, 0)
    (member,) = members.values()
    assert (list(members), member.value, end) == (["a\\ud800"], ["\\udfff", "\\ud800"], len(text))
    assert text[slice(*member.span)] == r'["\udfff", "\\ud800"]'
    assert members_at(r'{"\ud800": 1, "\ud800": 2}', 0) is None
