"""Quantities are read exactly."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kube.quantity import InvalidQuantity, format_bytes, parse_bytes, parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", "0"),
        ("1Ki", "1024"),
        ("1.5Gi", "1610612736"),
        ("500m", "0.5"),
        ("1k", "1000"),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("1E", "1e18"),
        ("-1.", "-1"),
        (".5", "0.5"),
        ("100n", "1e-7"),
        ("7Ei", str(7 * 2**60)),
    ],
)
def test_a_quantity_is_the_exact_number_that_it_stands_for(text: str, number: str) -> None:
    assert parse_quantity(text) == Decimal(number)


@pytest.mark.parametrize(
    "text", ["", "Gi", "1 Gi", "1gi", "1KB", "--1", "1e", "0x1", "1" * 65, None, [], True, "nan", "١"]
)
def test_what_is_no_quantity_is_refused(text: object) -> None:
    with pytest.raises(InvalidQuantity):
        parse_quantity(text)


def test_a_number_of_json_is_a_quantity() -> None:
    assert parse_quantity(3) == 3
    assert parse_quantity(1.5) == Decimal("1.5")


def test_bytes_are_rounded_up() -> None:
    assert parse_bytes("1.2") == 2
    assert parse_bytes("1Ki") == 1024


@given(st.integers(min_value=0, max_value=2**62))
def test_a_number_of_bytes_survives_printing(count: int) -> None:
    assert parse_bytes(format_bytes(count)) == count
