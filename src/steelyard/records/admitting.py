"""The door of a table: every rule that its columns must meet, all problems said together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from steelyard.errors import InputError, UsageError, printable
from steelyard.records import derive
from steelyard.records.breaches import breaches
from steelyard.records.extras import Extra
from steelyard.records.schema import KEY, check, no_item
from steelyard.records.sources import Source, where_of
from steelyard.records.table import Records
from steelyard.records.task import Task


def admitted(
    arrays: Mapping[str, pa.Array],
    *,
    cluster: str | None,
    task: Task,
    sources: Sequence[Source],
    warnings: Sequence[str] = (),
    problems: Sequence[InputError] = (),
    extras: Mapping[str, Extra] | None = None,
    skipped: Sequence[str] = (),
    asked: Collection[str] = (),
) -> Records:
    """A table after every rule at the door: kinds, ranges, outcomes, unique keys, targets within the task.

    All problems are raised together. `extras` are columns that cannot be read, which matters for those `asked` for.
    """
    where = where_of(sources)
    name = sources[0].name if sources else None
    if not arrays or not len(next(iter(arrays.values()))):
        raise InputError.together([*problems, InputError("there are no records", file=name)])
    findings = check(arrays, where, also=(*(extras or {}), *skipped))
    unread = {**(extras or {}), **{n: Extra(arrays[n], problem) for n, problem in findings.deferred.items()}}
    arrays = {n: array for n, array in arrays.items() if n not in unread}
    if "perturbation" in arrays:
        arrays["perturbation"] = derive.unperturbed_as_null(arrays["perturbation"])
    records = Records(
        arrays,
        cluster=cluster,
        task=task,
        sources=sources,
        warnings=(*warnings, *findings.warnings),
        extras=unread,
        skipped=skipped,
    )
    if cluster is not None and cluster not in records:
        raise UsageError(
            f"the cluster column '{printable(cluster)}' is not in the data; "
            f"columns: {', '.join(map(printable, (*arrays, *unread, *skipped)))}"
        )
    wanted = dict.fromkeys((*((cluster,) if cluster else ()), *asked))
    fields = {problem.field for problem in problems}
    own = [found for found in findings.problems if found.field not in fields]  # one problem of a column is enough
    wrong = [*problems, *own, *(unread[name].problem for name in wanted if name in unread)]
    if "item" not in records and "item" not in fields:
        wrong.insert(0, InputError(no_item([*arrays, *unread, *skipped]), file=name))
    if "item" in records and not {*KEY, "cluster", "target", cluster} & {problem.field for problem in wrong}:
        wrong += breaches(records, cluster, where)
    if wrong:
        raise InputError.together(wrong)
    return records
