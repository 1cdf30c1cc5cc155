"""The titles of metrics: what tables, pages and pictures for people call them.

A definition states its own as a template, `Fairness Gap of {base} by {by}`. Options that differ from their defaults and
that the template does not name follow it: `Expected Calibration Error, 15 bins`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from steelyard.metrics.options import Param, option_text, same_option
from steelyard.metrics.vocabulary import CUTOFF

if TYPE_CHECKING:
    from steelyard.metrics.metric import Metric

_PLACE = re.compile(r"\{(\w+)\}")
# what is left of a template without its label or option: "F1 of", "Risk at Coverage", "Mean Absolute Error, Target"
_DANGLING = re.compile(r"(?:(?:,? (?:of|by|at|up to|Target))|[:,])$")
_WORDINGS = {  # of options that several metrics have; a definition states others in its `option_titles`
    "answered_only": "answered only",
    "binary": "binary",
    "bins": "{} bins",
    "c": "coverage {}",
    "gain": "{} gain",
    "loss": "{} loss",
    "p": "p = {}",
    "positive": "positive {}",
    "pt": "threshold {}",
    "range": "range {}",
    "rank": "ranked by {}",
    "score": "of {}",
    "ties": "ties as {}",
    "weights": "{} weights",
}


def title_of(metric: Metric, *, inner: bool = False) -> str:
    """The title of a metric with its options and its label; `inner` is for the title of another metric about it."""
    definition, values = metric.definition, metric.values
    template = definition.names.title or derived(definition.name)
    if metric.label is not None:
        template = definition.names.member_titles.get(metric.label, template)
    named = set(_PLACE.findall(template))
    told = {p.name: _value(p, values[p.name]) for p in definition.params if values[p.name] is not None}
    told |= {} if metric.label is None else {"label": metric.label}
    title = _PLACE.sub(lambda place: told.get(place.group(1), ""), template).strip()
    while (shorter := _DANGLING.sub("", title)) != title:
        title = shorter.rstrip()
    if metric.label is not None and "label" not in named and metric.label not in definition.names.member_titles:
        title = f"{title}: {metric.label}"
    further = [p for p in definition.params if p.name not in named and not _is_usual(p, values[p.name])]
    cutoff = "".join(f"@{values[p.name]}" for p in further if p.name == "k")
    title += cutoff
    said = ", ".join(_wording(metric, p, values[p.name]) for p in further if p.name != "k")
    return title if not said else f"{title} ({said})" if inner else f"{title}, {said}"


def derived(name: str) -> str:
    """The title of a metric that states none, from its name.

    >>> derived("root_error")
    'Root Error'
    """
    words = name.removesuffix(CUTOFF).split("_")
    return " ".join(word[:1].upper() + word[1:] for word in words if word)


def _is_usual(param: Param, value: Any) -> bool:
    return value is None or (not param.required and same_option(value, param.default))


def _wording(metric: Metric, param: Param, value: Any) -> str:
    wording = metric.definition.names.option_titles.get(param.name) or _WORDINGS.get(param.name)
    if value is False:
        return f"not {wording or param.name}"
    if value is True:
        return wording or param.name.replace("_", " ")
    return wording.format(_value(param, value)) if wording else f"{param.name} {_value(param, value)}"


def _value(param: Param, value: Any) -> str:
    """An option's value as people read it: a metric by its title, a column without the prefix of groups."""
    if param.kind == "metric":
        return title_of(value, inner=True)
    if param.kind == "column":
        return str(value).removeprefix("group.")
    return str(value) if param.kind in ("text", "label") else option_text(param, value)
