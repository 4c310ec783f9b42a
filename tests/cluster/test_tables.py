"""Tables that have to share a window."""

from __future__ import annotations

import pytest

from mooring.cluster.tables import Section, lines, shortened


def of(name: str, rows: int) -> Section:
    return Section((name, "STATE"), [(f"{name}-{number}", "well") for number in range(rows)])


def test_tables_that_fit_are_not_changed():
    tables = [of("a", 3), of("b", 2)]
    assert shortened(tables, len(lines(tables))) == tables


def test_the_longest_table_is_cut_first_and_says_how_many_rows_are_left_out():
    few, many = shortened([of("few", 2), of("many", 50)], 15)
    assert few == of("few", 2)
    assert many.rows[-2:] == [("many-8", "well"), ("… 41 more", "")]


@pytest.mark.parametrize("room", range(10, 40))
def test_together_they_take_no_more_lines_than_there_are(room: int):
    tables = [of("a", 1), of("b", 7), of("c", 30), of("d", 100)]
    assert len(lines(shortened(tables, room))) <= max(room, 11)


def test_a_table_keeps_one_line_however_small_the_window_is():
    assert [len(each.rows) for each in shortened([of("a", 9), of("b", 9)], 1)] == [1, 1]
