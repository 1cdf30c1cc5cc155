"""What must be said of a table before its numbers are read: labels that no target has, doubtful confidences."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.errors import printable
from steelyard.metrics.definition import Metric
from steelyard.metrics.questions.calibration import class_probability
from steelyard.naming import label_text
from steelyard.records.asked import uneven_items
from steelyard.records.schema import kind_of
from steelyard.records.table import Records
from steelyard.uncertainty.scarcity import FEW_CLUSTERS


def unmet_labels(records: Records) -> list[str]:
    """A warning if labels are predicted that no target has: often a misspelt or unclean label."""
    if records.task.labels is not None or not {"target", "prediction"} <= set(records.stated):
        return []
    if any(kind_of(records.column(name)) != "text" for name in ("target", "prediction")):
        return []
    unmet = {*records.labels("prediction").values} - {*records.labels("target").values}
    if not unmet:
        return []
    return [f"{len(unmet)} predicted labels are never a target; check for misspelt or unclean labels"]


def table_warnings(records: Records) -> list[str]:
    few = len(records.cluster[0])
    narrow = [f"only {few} clusters: intervals may be too narrow"] if 2 <= few < FEW_CLUSTERS else []
    return [*unmet_labels(records), *uneven_items(records), *narrow]


def class_warnings(records: Records, asked: Sequence[Metric]) -> list[str]:
    """A warning if metrics read a confidence as about the answer, and it evidently states one class's probability."""
    about = [m for m in asked if "positive" in m.values and m.values["positive"] is None]
    label = class_probability(records) if about else ""
    if not label:
        return []
    name = about[0].definition.name
    return [
        f"the confidence looks like the probability of {printable(label, limit=40)}: high where that is predicted, low "
        f"where it is not; {name} takes it for confidence in the answer. Ask for {name}(positive={label_text(label)})"
    ]
