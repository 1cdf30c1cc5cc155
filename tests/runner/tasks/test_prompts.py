"""Templates: what they show, what they refuse, and that none runs away."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.errors import UsageError
from steelyard.runner.tasks import prompts
from steelyard.runner.tasks.prompts import Prompt


def made(template: str, **fields: Any) -> str:
    return Prompt(template, source="my.task.yaml:3: prompt").text(fields)


def test_text_is_not_escaped_and_values_are_no_templates() -> None:
    assert made("{{ a }}", a="<b> & {{ secret }} {% if %}") == "<b> & {{ secret }} {% if %}"


@given(st.text())
def test_any_value_is_shown_as_it_is(value: str) -> None:
    assert made("[{{ a }}]", a=value) == f"[{value}]"


def test_half_a_character_that_a_template_says_is_its_escape() -> None:
    assert made(r"""{{ "\ud800" }} \ud800""") == r"\ud800 \ud800"


def test_names_are_those_that_must_be_given() -> None:
    prompt = Prompt("{% for v in visits %}{{ v.egfr }}{{ loop.index }}{% endfor %}{{ age|round }}", source="x")
    assert prompt.names == {"visits", "age"}
    assert prompt.shown({"visits": [], "age": 3.2, "target": "ckd"}) == {"visits": [], "age": 3.2}


def test_a_field_without_a_value_says_so_and_a_missing_one_is_an_error() -> None:
    assert made("{{ a }}", a=None) == "not recorded"
    with pytest.raises(UsageError, match="prompt: the prompt of an item cannot be made"):
        made("{{ a }}")


def test_a_loop_and_choices() -> None:
    assert made("{% for v in a %}{{ v }}{{ ',' if not loop.last else '' }}{% endfor %}", a=[1, 2]) == "1,2"
    assert made("{{ a | join('; ') }} {{ b | upper }} {{ c + 1 }} {{ d ~ e }} {{ f[0] }} {{ f[1:] }}",
                a=["x", "y"], b="q", c=1, d=1, e=2, f="abc") == "x; y Q 2 12 a bc"  # fmt: skip


@pytest.mark.parametrize(
    "template",
    [
        "{{ 'x' * 1000000000 }}",
        "{{ 9 ** 9 ** 9 }}",
        "{{ '%1000000000d' % 5 }}",
        "{{ a.__class__.__mro__() }}",
        "{{ ''.join(a) }}",
        "{{ range(10) }}",
        "{% for x in range(99999) %}x{% endfor %}",
        "{% set a = 'x' %}",
        "{% macro m() %}{% endmacro %}",
        "{% include 'etc' %}",
        "{% import 'os' as os %}",
        "{% extends 'x' %}",
        "{% block x %}{% endblock %}",
        "{% for x in a %}{% for y in a %}{{ y }}{% endfor %}{% endfor %}",
        "{% for x in a %}{% if x %}{% for y in a %}{{ y }}{% endfor %}{% endif %}{% endfor %}",
        "{% for x in a recursive %}{{ x }}{% endfor %}",
        "{{ a | center(1000000000) }}",
        "{{ a | replace('a', 'aaaa') }}",
        "{{ a | map('upper') }}",
        "{% with b = a %}{{ b }}{% endwith %}",
        "{% filter upper %}x{% endfilter %}",
        "{{ self }}",
        "{{ self.x }}",
        "{{ self | upper }}",
        "{% for x in a %}{{ loop }}{% endfor %}",
        "{% for x in a %}{{ loop ~ x }}{% endfor %}",
        "{{ a",
        "{% if a %}",
        "{{ a | nothing }}",
        "(" * 5000,
    ],
)
def test_what_a_prompt_has_no_use_for_is_refused_before_it_runs(template: str) -> None:
    prompt = Prompt(template, source="my.task.yaml:3: prompt")
    if template.startswith("("):
        assert prompt.names == frozenset()
        return
    with pytest.raises(UsageError, match=r"my\.task\.yaml:3: prompt: line 1: "):
        _ = prompt.names


def test_attributes_of_python_are_out_of_reach() -> None:
    with pytest.raises(UsageError, match="cannot be made"):
        made("{{ a.__class__ }}", a="x")


@pytest.mark.parametrize(
    "template",
    [
        "{{ a.upper }}",
        "{{ a.upper | upper }}",
        "{{ a.upper ~ '!' }}",
        "{{ a['upper'] }}",
        "{% if a.upper %}yes{% endif %}",
        "{% for x in b %}{{ loop.cycle }}{% endfor %}",
        "{{ b.append }}",
        "{{ b[0].real.bit_length }}",
    ],
)
def test_methods_are_no_values(template: str) -> None:
    with pytest.raises(UsageError, match=r"is a method, and no part of a value|cannot be made"):
        made(template, a="Mrs Smith", b=[1, 2])


def test_a_mapping_has_its_keys_whatever_they_are_called() -> None:
    assert made("{{ a.items }} {{ a['keys'] }} {{ a.b }}", a={"items": 3, "keys": "k", "b": None}) == "3 k not recorded"
    with pytest.raises(UsageError, match="cannot be made"):
        made("{{ a.values }}", a={"b": 1})


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="at most 20,000 characters"):
        made("x" * 20_001)
    monkeypatch.setattr(prompts, "LONGEST_PROMPT", 100)
    with pytest.raises(UsageError, match="at most 100 characters"):
        made("{% for x in a %}{{ x }}{% endfor %}", a="y" * 101)


def test_depth_is_bounded() -> None:
    with pytest.raises(UsageError):
        made("{{ " + "(" * 2000 + "a" + ")" * 2000 + " }}", a=1)


def test_an_error_shows_no_value() -> None:
    with pytest.raises(UsageError) as caught:
        made("{{ a + 1 }}", a="Mrs Smith")
    assert "Smith" not in str(caught.value)
