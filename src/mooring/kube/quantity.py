"""Kubernetes quantities (`10Gi`, `500m`, `1e3`), read exactly and printed canonically.

Pure; knows nothing of objects. Grammar and canonical form: the `resource.Quantity` documentation of the
Kubernetes API.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal, localcontext
from typing import Any

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "": Decimal(1),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
}
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([eE][+-]?\d{1,3})|([KMGTPE]i|[numkMGTPE]?))", re.ASCII)
_MAX_LENGTH = 64


MOST = Decimal(2**63 - 1)
"""What is more counts as this, as upstream counts it."""


class InvalidQuantity(ValueError):
    """A text that is no quantity."""


def parse_quantity(value: Any) -> Decimal:
    """The exact number that a quantity stands for. Numbers of JSON are accepted as Kubernetes accepts them.

    Raises `InvalidQuantity`, with upstream's words, for anything else.
    """
    text = repr(value) if isinstance(value, int | float) and abs(value) < 10**_MAX_LENGTH else value
    match = _FORM.fullmatch(text) if isinstance(text, str) and len(text) <= _MAX_LENGTH else None
    if match is None:
        raise InvalidQuantity(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, exponent, suffix = match.groups()
    with localcontext(prec=200):
        if exponent:
            found = Decimal(number + exponent)
        else:
            found = Decimal(number) * (_BINARY[suffix] if suffix in _BINARY else _DECIMAL[suffix])
    return max(-MOST, min(MOST, found))


def parse_bytes(value: Any) -> int:
    """A quantity as whole bytes, rounded up as Kubernetes rounds. Raises `InvalidQuantity`."""
    return int(parse_quantity(value).to_integral_value(ROUND_CEILING))


def format_bytes(count: int) -> str:
    """The shortest binary form of a number of bytes that is exact: 1073741824 → `1Gi`."""
    for suffix, size in reversed(_BINARY.items()):
        if count and count % size == 0:
            return f"{count // size}{suffix}"
    return str(count)
