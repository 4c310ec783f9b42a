"""The checker of tables."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from tests.machines.stateful.ledger import PAGE, Insert, Read, violations


def read(rows: set[int], began: float, ended: float, page: int = 0) -> Read:
    return Read(page, began, ended, frozenset(rows))


def test_an_acknowledged_row_that_a_later_read_lacks_is_found():
    (found,) = violations([Insert(1, 0, 1), Insert(2, 0, 1)], [read({2}, 2, 3)])
    assert "lacks 1 rows that were acknowledged or read before: 1" in found


def test_a_row_that_is_acknowledged_while_the_read_runs_may_be_missing():
    assert violations([Insert(1, 0, 3)], [read(set(), 2, 4)]) == []


def test_a_row_without_an_answer_may_be_there_or_not():
    assert violations([Insert(1, 0)], [read(set(), 2, 4), read({1}, 5, 6)]) == []


def test_a_row_that_was_read_must_stay_even_if_it_was_not_acknowledged():
    (found,) = violations([Insert(1, 0)], [read({1}, 2, 4), read(set(), 5, 6)])
    assert "lacks 1 rows" in found


def test_a_row_that_was_not_sent_by_then_is_found():
    assert len(violations([Insert(1, 9)], [read({1}, 2, 4), read({1, 2}, 10, 11)])) == 2


def test_a_read_of_one_page_says_nothing_of_another():
    assert violations([Insert(PAGE, 0, 1)], [read(set(), 2, 3)]) == []


@given(st.integers(0, 1 << 32), st.booleans())
def test_a_table_is_accused_only_if_it_loses_a_row(seed: int, loses: bool):
    random, table, inserts, reads, lost = Random(seed), set[int](), list[Insert](), list[Read](), False
    for row in range(60):
        if random.random() < 0.8:
            table.add(row)
            inserts.append(Insert(row, row, row + 0.5) if random.random() < 0.8 else Insert(row, row))
        else:
            inserts.append(Insert(row, row))
        promised = {each.row for each in inserts if each.acknowledged <= row + 0.5}
        if loses and not lost and promised and random.random() < 0.1:
            table.discard(random.choice(sorted(promised)))
            lost = True
        reads.append(read(table, row + 0.6, row + 0.7))
    assert bool(violations(inserts, reads)) == lost
