"""What answers took, in plain loops (section 10)."""

from __future__ import annotations

import math
from functools import partial

from tests.support.naive.correctness import f1_macro
from tests.support.naive.regression import mae
from tests.support.naive.table import Oracle, Table, Value, asked, is_correct, share, with_target


def total(table: Table, *, of: str) -> Value:
    found = [row[of] for row in asked(table) if row[of] is not None]
    return float(sum(found)) if found else None


def token_total(table: Table) -> Value:
    read, written = total(table, of="input_tokens"), total(table, of="output_tokens")
    return None if read is None or written is None else read + written


def cost_per_correct(table: Table) -> Value:
    rows = [row for row in with_target(asked(table)) if row["cost"] is not None]
    return share(math.fsum(row["cost"] for row in rows), sum(is_correct(row) for row in rows))


def fact(table: Table, *, name: str) -> Value:
    """What is stated of the whole table: time and energy were spent where every row failed, too."""
    stated: Value = getattr(table, name)
    return stated


def grams_for_each(table: Table, quality: Value) -> Value:
    return None if quality is None or table.co2_kg is None else share(1000 * table.co2_kg, quality)


def gco2_per_f1_point(table: Table) -> Value:
    f1 = f1_macro(table)
    return grams_for_each(table, None if f1 is None else f1 * 100)


def gco2_per_mae_unit(table: Table) -> Value:
    return grams_for_each(table, mae(table))


# -- by name ---------------------------------------------------------------------------------------------------------

TAKEN: dict[str, Oracle] = {
    "input_tokens_total": partial(total, of="input_tokens"),
    "output_tokens_total": partial(total, of="output_tokens"),
    "token_total": token_total,
    "cost_per_correct": cost_per_correct,
    "elapsed_seconds": partial(fact, name="wall_seconds"),
    "kwh": partial(fact, name="kwh"),
    "co2_kg": partial(fact, name="co2_kg"),
    "gco2_per_f1_point": gco2_per_f1_point,
}
TAKEN_NUMBERS: dict[str, Oracle] = {"gco2_per_mae_unit": gco2_per_mae_unit}
