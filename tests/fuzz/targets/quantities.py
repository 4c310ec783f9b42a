"""Quantities: read or refused; the canonical form means the same, and is its own canonical form."""

from __future__ import annotations

from decimal import Decimal

from mooring.apiserver.schema.quantities import canonical
from mooring.kube.quantity import MOST, InvalidQuantity, parse_bytes, parse_quantity

SEEDS = [
    b"1",
    b"100m",
    b"1.5Gi",
    b"-3e-3",
    b"+.5k",
    b"1e999",
    b"12E",
    b"999999999999999999999",
    b"0.0000000001",
    b"1Ki",
]
_NANO = Decimal("1e-9")


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    try:
        value = parse_quantity(text)
    except InvalidQuantity:
        return
    assert abs(value) <= MOST
    parse_bytes(text)
    printed = canonical(text)
    assert canonical(printed) == printed, (text, printed)
    assert abs(parse_quantity(printed) - value) <= _NANO, (text, printed)
