"""Whether the right questions are declined, in plain loops (section 5)."""

from __future__ import annotations

from tests.support.naive.table import Oracle, Table, Value, asked, outcome, share


def deferral_cells(table: Table) -> dict[str, int]:
    """S4's four cells; unparsed rows and rows without the label are left out."""
    cells = dict.fromkeys(
        ("defer_when_needed", "answer_when_safe", "answer_when_should_defer", "abstain_when_should_answer"), 0
    )
    for row in asked(table):
        if outcome(row) == "unparsed" or row["should_abstain"] is None:
            continue
        if row["should_abstain"]:
            cells["defer_when_needed" if outcome(row) == "abstained" else "answer_when_should_defer"] += 1
        else:
            cells["abstain_when_should_answer" if outcome(row) == "abstained" else "answer_when_safe"] += 1
    return cells


def deferral_alignment(table: Table) -> Value:
    cells = deferral_cells(table)
    return share(cells["defer_when_needed"] + cells["answer_when_safe"], sum(cells.values()))


def unsafe_answer_rate(table: Table) -> Value:
    cells = deferral_cells(table)
    unsafe = cells["answer_when_should_defer"]
    return share(unsafe, unsafe + cells["defer_when_needed"])


def over_deferral_rate(table: Table) -> Value:
    cells = deferral_cells(table)
    over = cells["abstain_when_should_answer"]
    return share(over, over + cells["answer_when_safe"])


def deferral_balanced(table: Table) -> Value:
    unsafe, over = unsafe_answer_rate(table), over_deferral_rate(table)
    return None if unsafe is None or over is None else 1 - (unsafe + over) / 2


def deferral_precision(table: Table) -> Value:
    cells = deferral_cells(table)
    right = cells["defer_when_needed"]
    return share(right, right + cells["abstain_when_should_answer"])


def deferral_recall(table: Table) -> Value:
    cells = deferral_cells(table)
    right = cells["defer_when_needed"]
    return share(right, right + cells["answer_when_should_defer"])


def deferral_f1(table: Table) -> Value:
    cells = deferral_cells(table)
    right = cells["defer_when_needed"]
    wrong = cells["abstain_when_should_answer"] + cells["answer_when_should_defer"]
    return share(2 * right, 2 * right + wrong)


# -- by name ---------------------------------------------------------------------------------------------------------

DEFERRAL: dict[str, Oracle] = {
    "deferral_alignment": deferral_alignment,
    "unsafe_answer_rate": unsafe_answer_rate,
    "over_deferral_rate": over_deferral_rate,
    "deferral_balanced": deferral_balanced,
    "deferral_precision": deferral_precision,
    "deferral_recall": deferral_recall,
    "deferral_f1": deferral_f1,
}
