"""A gate as a test: the fixture `steelyard_gate` asserts rules in one line and shows the table where they do not hold.

    def test_no_worse_than_before(steelyard_gate):
        steelyard_gate("new.jsonl", baseline="old.jsonl", rules=["low(delta(accuracy)) >= -0.01"], cluster="patient")

A run is a file of answers, `Records`, a run folder, or the id of a run in the store; a baseline may also be `active`,
`active:METRIC` or `pinned:NAME`, as in the command. Gates of kept runs are counted. An inconclusive gate fails the test
too, unless `inconclusive="skip"` or `"xfail"` says otherwise.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pytest

if TYPE_CHECKING:
    from steelyard.records.reading import Reading

_INCONCLUSIVE = ("fail", "skip", "xfail", "pass")


@pytest.fixture
def steelyard_gate() -> Callable[..., Any]:
    """Assert that a run passes a gate; returns the decision."""
    return check


def check(
    run: Any,
    *,
    rules: Sequence[str] | str,
    baseline: Any = None,
    inconclusive: str = "fail",
    allow: Sequence[str] | Mapping[str, float] | str = (),
    primary: Sequence[str] | str = (),
    allow_missing: float | None = None,
    allow_inconclusive: bool = False,
    by: Sequence[str] | str = (),
    pool: Sequence[str] = (),
    resamples: int | None = None,
    seed: int | None = None,
    level: float | None = None,
    align: Literal["strict", "intersection"] = "strict",
    unchanged: Literal["say", "judge"] = "say",
    profile: str = "default",
    root: str | os.PathLike[str] | None = None,
    tenant: str | None = None,
    domain: str | None = None,
    **reading: Unpack[Reading],
) -> Any:
    """The decision of a gate; a failed test with the table of rules where it does not pass.

    Files are read as `steelyard.read` reads them, with the same options.
    `allow` says which cautions about the rows bar no rule: ["excerpt", "failed=0.1"]. `primary` names the metrics whose
    rules are corrected among themselves.
    `allow_missing=0.1` is the earlier form of `allow="missing=0.1"`, and `allow_inconclusive=True` of
    `inconclusive="pass"`.
    """
    __tracebackhide__ = True
    from dataclasses import replace
    from pathlib import Path

    from steelyard.decide.allowing import allowed
    from steelyard.decide.decision import INCONCLUSIVE
    from steelyard.decide.gate import Gate
    from steelyard.decide.request import Request, judge
    from steelyard.decide.subject import NumberOptions
    from steelyard.errors import SteelyardError, printable
    from steelyard.records.reading import Reading, stated
    from steelyard.report.formats import text
    from steelyard.report.gate import gate_report
    from steelyard.retired import deprecated
    from steelyard.runs.environment import domain_of, root_of, tenant_of
    from steelyard.runs.layout import View

    if allow_inconclusive:
        said = deprecated(
            "steelyard_gate allow_inconclusive=", "give inconclusive='pass'", typed="allow_inconclusive=True"
        )
        warnings.warn(said, DeprecationWarning, stacklevel=2)
        inconclusive = "pass"
    if allow_missing is not None:
        said = deprecated(
            "steelyard_gate allow_missing=",
            f"give allow='missing={allow_missing}'",
            typed=f"allow_missing={allow_missing}",
        )
        warnings.warn(said, DeprecationWarning, stacklevel=2)
    if inconclusive not in _INCONCLUSIVE:
        pytest.fail(f"inconclusive is one of {', '.join(_INCONCLUSIVE)}", pytrace=False)
    judged, problem = None, ""
    try:
        earlier = {} if allow_missing is None else {"missing": allow_missing}
        gate = replace(
            Gate.parse(rules),
            allow={**allowed(earlier), **allowed(allow)},
            primary=(primary,) if isinstance(primary, str) else tuple(primary),
        )
        gate = gate.by([by] if isinstance(by, str) else list(by))
        place = Path(root) if root else None
        view = View(
            root_of(place, os.environ, _said), tenant_of(tenant, os.environ, _said), domain_of(domain, os.environ)
        )
        request = Request(
            run=run,
            baseline=baseline,
            view=view,
            profile=profile,
            reading=stated(reading, Reading),
            asked=NumberOptions(
                resamples=resamples, seed=seed, level=level, align=align, pool=tuple(pool), unchanged=unchanged
            ),
        )
        judged = judge(gate, request)
        judged.record()
    except SteelyardError as error:
        problem = f"steelyard: {printable(error, limit=2000)}"
    if judged is None:  # outside the handler, so that the message stands alone
        pytest.fail(problem, pytrace=False)
    decision = judged.decision
    if judged.unit is not None:
        _said(f"{judged.unit}: cluster={judged.unit.column!r}")
    if decision.verdict == "pass":
        return decision
    reason = f"gate {decision.verdict}: {printable(decision.reason, limit=400)}"
    if decision.verdict == INCONCLUSIVE and inconclusive == "pass":
        return decision
    if decision.verdict == INCONCLUSIVE and inconclusive == "skip":
        pytest.skip(reason)
    if decision.verdict == INCONCLUSIVE and inconclusive == "xfail":
        pytest.xfail(reason)
    pytest.fail(f"{reason}\n\n{text.render(gate_report(decision, judged.about))}", pytrace=False)


def _said(message: str) -> None:
    """Show what is said next to a decision with the test's output."""
    print(message)
