"""The tables, and which operators none of them needs."""

from __future__ import annotations

from bench.operators.case import Case
from bench.operators.cases import elementwise, movement, neural, reduction

TABLES = (elementwise, reduction, movement, neural)


def all_cases() -> list[Case]:
    """Every case, in the order of the tables."""
    return [case for table in TABLES for case in table.table()]
