"""One text with commas: what splits it, what quotes and brackets keep whole, and that pairs are read back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from steelyard.errors import UsageError
from steelyard.ground.commas import listed, outside, pair_of, pair_text, quoted, split_commas, unquoted

NASTY = st.text(st.sampled_from("ab ,=<>!.:'\"\\()[]{}é\n"), max_size=12)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("a", ["a"]),
        ("", [""]),
        ("a,b", ["a", "b"]),
        (" a , b ", ["a", "b"]),
        ("a,", ["a", ""]),
        ('"a,b",c', ['"a,b"', "c"]),
        ("'a,b',c", ["'a,b'", "c"]),
        ('model="a,b",x=c', ['model="a,b"', "x=c"]),
        ('"a\\",b",c', ['"a\\",b"', "c"]),
        ("ece(bins=15,norm=2),f1", ["ece(bins=15,norm=2)", "f1"]),
        ("f(a,[b,c],d),e", ["f(a,[b,c],d)", "e"]),
        ("[0,50),[50,100)", ["[0,50)", "[50,100)"]),
        ("(0,50],(50,100]", ["(0,50]", "(50,100]"]),
        ("accuracy{model=a,strategy=b},f1", ["accuracy{model=a,strategy=b}", "f1"]),
        ('f(")",a),b', ['f(")",a)', "b"]),
        ("O'Brien,D'Arcy", ["O'Brien", "D'Arcy"]),
        ("city='s-Hertogenbosch,town='s-Graveland", ["city='s-Hertogenbosch", "town='s-Graveland"]),
        ('5",6"', ['5"', '6"']),
        ("a(b,c", ["a(b", "c"]),
        ("((a,b),c", ["((a,b)", "c"]),
        (":),x", [":)", "x"]),
    ],
)
def test_commas_inside_quotes_and_brackets_do_not_split(text: str, parts: list[str]) -> None:
    assert split_commas(text) == parts


def test_quotes_go_and_dots_stay() -> None:
    assert listed('"a,b", \'c"d\' ,e,,group."ward 7"') == ["a,b", 'c"d', "e", "group.ward 7"]
    assert unquoted('"tab\\tand é"') == "tab\tand é"
    assert unquoted("1.5") == "1.5"
    assert unquoted("'C:\\new'") == "C:\\new"
    with pytest.raises(UsageError, match="not a valid quoted text"):
        unquoted('"C:\\dir"')


def test_pairs() -> None:
    assert pair_of("a=b") == ("a", "b")
    assert pair_of(' "a=b" = c=d ') == ("a=b", "c=d")
    assert pair_of("f(x=1)=2") == ("f(x=1)", "2")
    assert pair_of('a=""') == ("a", "")
    for text in ("a", "a=", "=b", "", " = "):
        assert pair_of(text) is None


@given(NASTY, NASTY)
@example("f(", ")")
@example("", "")
def test_a_pair_is_read_back_whatever_it_holds(name: str, value: str) -> None:
    text = pair_text(name, value)
    assert split_commas(text) == [text]
    assert pair_of(text) == (name, value)


@given(NASTY)
def test_quotes_hold_anything(text: str) -> None:
    assert split_commas(quoted(text)) == [quoted(text)]
    assert unquoted(quoted(text)) == text


@given(st.text(st.sampled_from("ab=.+-, "), max_size=20))
def test_a_text_without_quotes_or_brackets_splits_at_every_comma(text: str) -> None:
    assert split_commas(text) == [part.strip() for part in text.split(",")]


def test_deep_nesting_costs_no_stack_and_no_square() -> None:
    text = "(" * 50_000 + "a,b" + ")" * 50_000
    assert split_commas(text) == [text]
    assert sum(outside("[" * 100_000)) == 100_000


def test_half_a_character_in_quotes_is_its_escape() -> None:
    assert unquoted(r'"a\ud800"') == "a\\ud800"
    assert pair_of(r'"\ud800"="\ud83e\udd94"') == ("\\ud800", "🦔")
