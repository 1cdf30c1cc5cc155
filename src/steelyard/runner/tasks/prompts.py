"""Prompts: Jinja templates that can show the fields that they name, and do nothing else.

A template is trusted with data but not with the machine: it may print, choose and loop, over what it is given. There
are no calls, assignments, macros, imports or nested loops, and few filters, so that none runs away or grows without
bound; it runs in Jinja's sandbox besides. What belongs to Python and not to the data, such as the methods of a text, is
no part of a value. A field that is missing from an item is an error, a field without a value prints as "not recorded".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

from steelyard.errors import UsageError, printable
from steelyard.halves import whole_text

if TYPE_CHECKING:
    from jinja2 import Template, nodes
    from jinja2.sandbox import ImmutableSandboxedEnvironment

LONGEST_TEMPLATE = 20_000  # characters
LONGEST_PROMPT = 1_000_000
NO_VALUE = "not recorded"

_FILTERS = (
    "abs",
    "capitalize",
    "default",
    "float",
    "int",
    "join",
    "length",
    "lower",
    "round",
    "title",
    "trim",
    "upper",
)
_NODES = {
    "Template", "Output", "TemplateData", "Name", "Const", "Tuple", "List", "Getattr", "Getitem", "Slice",
    "If", "For", "CondExpr", "Compare", "Operand", "And", "Or", "Not", "Neg", "Pos", "Add", "Sub", "Div",
    "Concat", "Filter", "Test", "Keyword",
}  # fmt: skip


class _MethodError(Exception):
    """A template asks for a method of a value."""


class Prompt:
    """A template: the names of the fields that it shows, and its text for an item.

    >>> greeting = Prompt("{{ age }} years{% if sex %}, {{ sex }}{% endif %}", source="here")
    >>> sorted(greeting.names)
    ['age', 'sex']
    >>> greeting.text({"age": 70, "sex": "female", "secret": 1})
    '70 years, female'
    """

    def __init__(self, template: str, *, source: str) -> None:
        self.template, self.source = template, source

    @cached_property
    def names(self) -> frozenset[str]:
        """The fields that the template names."""
        from jinja2 import meta

        return frozenset(meta.find_undeclared_variables(self._parsed))

    def shown(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Of some fields those that the template names."""
        return {name: fields[name] for name in sorted(self.names) if name in fields}

    def text(self, fields: Mapping[str, Any]) -> str:
        """The template filled in; it gets the fields that it names and no others."""
        parts, size = [], 0
        try:
            for part in self._compiled.generate(self.shown(fields)):
                size += len(part)
                if size > LONGEST_PROMPT:
                    raise self._refused(f"a prompt has at most {LONGEST_PROMPT:,} characters")
                parts.append(part)
        except UsageError:
            raise
        except _MethodError as problem:
            raise self._refused(f"'{printable(str(problem))}' is a method, and no part of a value") from None
        except Exception as problem:  # whatever it does with a value; the message might show the value
            raise self._refused(f"the prompt of an item cannot be made ({type(problem).__name__})") from None
        return whole_text("".join(parts).strip())  # a quoted text in a template may say half a character

    @cached_property
    def _parsed(self) -> nodes.Template:
        from jinja2 import TemplateSyntaxError, nodes

        if len(self.template) > LONGEST_TEMPLATE:
            raise self._refused(f"a template has at most {LONGEST_TEMPLATE:,} characters")
        try:
            parsed = _environment().parse(self.template)
        except TemplateSyntaxError as problem:
            raise self._refused(f"line {problem.lineno}: {printable(problem.message or 'not a template')}") from None
        except RecursionError:
            raise self._refused("the template is nested too deeply") from None
        for node in parsed.find_all(nodes.Node):
            self._check(node)
        return parsed

    @cached_property
    def _compiled(self) -> Template:
        from jinja2 import TemplateError

        _ = self._parsed
        try:
            return _environment().from_string(self.template)
        except (TemplateError, SyntaxError, RecursionError):
            raise self._refused("the template cannot be used") from None

    def _check(self, node: nodes.Node) -> None:
        """Refuse what a prompt has no use for."""
        from jinja2 import nodes

        kind = type(node).__name__
        if kind not in _NODES:
            raise self._refused(f"line {node.lineno}: a prompt prints, chooses and loops, and has no {_word(kind)}")
        if isinstance(node, nodes.Filter) and node.name not in _FILTERS:
            known = ", ".join(_FILTERS)
            raise self._refused(f"line {node.lineno}: unknown filter '{printable(node.name)}'; there are: {known}")
        if isinstance(node, nodes.Name) and node.name in ("self", "super"):
            raise self._refused(f"line {node.lineno}: '{node.name}' is Jinja's own, and no field")
        if isinstance(node, nodes.For) and _shows_loop(node):
            raise self._refused(f"line {node.lineno}: 'loop' is no value; loop.index is, or loop.last")
        if isinstance(node, nodes.For) and (node.recursive or any(True for part in node.body for _ in _loops(part))):
            raise self._refused(f"line {node.lineno}: a loop within a loop is more than a prompt needs")

    def _refused(self, problem: str) -> UsageError:
        return UsageError(f"{printable(self.source)}: {problem}")


@cache
def shipped(package: str, name: str) -> Prompt:
    """A template of ours, which lies in `templates` of a package."""
    file = resources.files(package).joinpath("templates", f"{name}.j2")
    return Prompt(file.read_text(encoding="utf-8"), source=f"{name}.j2")


@cache
def _environment() -> ImmutableSandboxedEnvironment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Environment(ImmutableSandboxedEnvironment):
        """Looks into values for data alone: a mapping has its keys, and nothing has methods."""

        def getattr(self, obj: Any, attribute: str) -> Any:
            if isinstance(obj, Mapping):
                return obj[attribute] if attribute in obj else self.undefined(obj=obj, name=attribute)
            return _data(super().getattr(obj, attribute), attribute)

        def getitem(self, obj: Any, argument: Any) -> Any:
            if isinstance(obj, Mapping):
                return obj[argument] if argument in obj else self.undefined(obj=obj, name=argument)
            return _data(super().getitem(obj, argument), argument)

    environment = Environment(
        undefined=StrictUndefined,
        autoescape=False,  # a prompt is no page
        optimized=False,  # nothing is computed before it was looked at
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: NO_VALUE if value is None else value,
    )
    environment.globals.clear()
    environment.filters = {name: environment.filters[name] for name in _FILTERS}
    return environment


def _data(value: Any, name: object) -> Any:
    from jinja2 import Undefined

    if callable(value) and not isinstance(value, Undefined):
        raise _MethodError(name)
    return value


def _shows_loop(loop: nodes.For) -> bool:
    """True if a loop uses the name `loop` for itself, and not for what it knows."""
    from jinja2 import nodes

    looked_into = {id(each.node) for each in loop.find_all(nodes.Getattr)}
    return any(name.name == "loop" and id(name) not in looked_into for name in loop.find_all(nodes.Name))


def _loops(node: nodes.Node) -> Any:
    from jinja2 import nodes

    return [node] if isinstance(node, nodes.For) else node.find_all(nodes.For)


def _word(kind: str) -> str:
    words = {
        "Call": "calls",
        "Assign": "assignments",
        "AssignBlock": "assignments",
        "Macro": "macros",
        "Mul": "products",
    }
    return words.get(kind, f"{kind.lower()}s")
