"""How often is a question answered, declined, answered unreadably, or not answered at all?"""

from __future__ import annotations

from steelyard.ground.arrays import Floats
from steelyard.metrics.contract import metric
from steelyard.metrics.evidence.sums import Cells, Terms, sums
from steelyard.metrics.rates import rate
from steelyard.metrics.vocabulary import Default


@rate(
    title="Answer Rate (Coverage)",
    also=("answered", "response rate", "yield"),
    default_for=(Default("numbers", 4), Default("labels", 5)),
    formula="answered / N",
    aliases=("coverage",),
)
def answer_rate(answered: Floats) -> Floats:
    """Share of the asked rows with a usable answer (coverage).

    >>> value("answer_rate", prediction=["a", "a", None, None])
    0.5
    """
    return answered


@rate(
    title="Abstention Rate",
    also=("refusal", "declined", "deferral rate", "no answer"),
    default_for=(Default("labels", 6),),
    formula="abstained / N",
)
def abstention_rate(abstained: Floats) -> Floats:
    """Share of the asked rows where the model declined. Whether that is good depends on the case.

    See deferral_alignment.

    >>> value("abstention_rate", prediction=["a", "a", None, None])
    0.5
    """
    return abstained


@rate(
    title="Parse Failure Rate",
    also=("unparsed", "format errors", "invalid"),
    better="lower",
    default_for=(Default("unparsed replies", 1),),
    formula="unparsed / N",
)
def parse_failure_rate(unparsed: Floats) -> Floats:
    """Share of the asked rows with a reply in which no answer could be read.

    >>> value("parse_failure_rate", prediction=["a", None], outcome=["answered", "unparsed"])
    0.5
    """
    return unparsed


@rate(
    title="Failure Rate",
    also=("errors", "crash", "timeouts"),
    better="lower",
    rows="all",
    default_for=(Default("failed rows", 1),),
    formula="failed / (N + failed)",
)
def failure_rate(failed: Floats) -> Floats:
    """Share of all rows without any reply: transport, server or crash. Quality metrics leave these rows out.

    >>> value("failure_rate", prediction=["a", None], outcome=["answered", "failed"])
    0.5
    """
    return failed


@metric(
    title="Total Predictions",
    also=("sample size", "number of predictions", "count"),
    bounds=(0, None),
    unit="rows",
    formula="answered + abstained + unparsed",
    no_interval="it is the count of this table, not an estimate",
    no_delta="counts grow with the rows",
)
def n_predictions(answered: Floats) -> Terms:
    """Rows with a reply: answered, abstained or unparsed; failed ones are not among them.

    >>> value("n_predictions", prediction=["a", "b", None], outcome=["answered", "answered", "failed"])
    2.0
    """
    return sums(answered=answered, n=1)


@n_predictions.finish
def _(s: Cells) -> Floats:
    return s.n
