"""The wire form of comparisons, and what evaluations' is read back by; `selective` and `calibration` have their own.

Non-finite numbers are never written: they become null, and a note says why. Equal inputs and settings give equal bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import msgspec

from steelyard.comparison import Comparison, Delta
from steelyard.naming import slice_text
from steelyard.ranking import Ranked
from steelyard.records.labels import value_name
from steelyard.uncertainty.estimate import Estimate
from steelyard.wire import head
from steelyard.wire import plain as plain

_ESTIMATE = tuple(f.name for f in fields(Estimate) if f.repr)  # what is shown is written; rules are not
_DELTA = tuple(f.name for f in fields(Delta) if f.repr)
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """`comparison.json`."""
    return {
        **head("comparison"),
        "inputs": {side: [source.to_dict() for source in sources] for side, sources in comparison.sources.items()},
        "population": plain(comparison.population),
        "unmatched": plain(comparison.unmatched),
        "uncertainty": {**comparison.settings.to_dict(), "cluster": list(comparison.cluster)},
        "deltas": [delta_document(d) for d in comparison],
        "warnings": list(comparison.warnings),
    }


def ranking_document(ranked: Ranked, *, ties: str, complete: bool, relevance_level: int) -> dict[str, Any]:
    """An evaluation's document for rankings: how they were ordered, and the deltas where there are two runs."""
    about = {"ties": ties, "complete": complete, "relevance_level": relevance_level}
    document = {**ranked.evaluation.to_dict(), "ranking": about}
    if ranked.comparison is not None:
        document["comparison"] = comparison_document(ranked.comparison)
    return document


def delta_document(d: Delta) -> dict[str, Any]:
    """One delta, with its companions."""
    return plain({name: getattr(d, name) for name in _DELTA})


def read_estimate(document: Mapping[str, Any]) -> Estimate:
    """The estimate that a document holds; what the first edition did not write has its default."""
    known = {name: document[name] for name in _ESTIMATE if name in document}
    ends = known["interval"]
    if ends is not None:  # an end that is unknown is null on the wire
        low, high = ends
        known["interval"] = (-math.inf if low is None else low, math.inf if high is None else high)
    known["cautions"] = tuple(known.get("cautions", ()))
    return Estimate(**known)


def dumps(document: Any) -> str:
    """The document as text: strict JSON, indented, ending in a newline."""
    compact = json.dumps(document, allow_nan=False, ensure_ascii=True).encode()
    try:
        text = msgspec.json.format(compact, indent=2).decode()  # json indents in Python, this does not
    except msgspec.DecodeError:  # half a character in a text, which only json writes
        text = json.dumps(document, indent=2, allow_nan=False, ensure_ascii=True)
    return text.replace("\x7f", "\\u007f") + "\n"  # the one control character that JSON lets stand


# -- flat keys ---------------------------------------------------------------------------------------------------------

_SLICE_ORDER = ("model", "strategy", "task", "perturbation")
OTHER_NAMES = {"brier_score": "brier", "aurc_full": "aurc", "augrc_full": "augrc"}  # what documented keys mean
RENAMED = {metric: documented for documented, metric in OTHER_NAMES.items()} | {"brier(binary=true)": "brier_score"}


def flat_key(metric: str, slice_: Mapping[str, Any]) -> str:
    """The key of a number in `run.json` and the index: the metric, and its slice where it has one."""
    known = [c for c in _SLICE_ORDER if c in slice_]
    rest = [c for c in slice_ if c not in known]
    return metric + slice_text({c: value_name(slice_[c]) for c in (*known, *sorted(rest))})
