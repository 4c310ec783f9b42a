"""Quantities as Kubernetes prints them: `1024Mi` is `1Gi`, `0.5` is `500m`. Pure.

The rule (documentation of `resource.Quantity`): no fraction, the largest suffix of the same family that keeps
it so.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, Decimal, localcontext
from functools import lru_cache

from mooring.kube.quantity import parse_quantity

_DECIMAL = {-9: "n", -6: "u", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FINEST = Decimal("1e-9")


@lru_cache(maxsize=2048)
def canonical(text: str) -> str:
    """The canonical form of a quantity; finer than a nano is rounded up. Raises `InvalidQuantity`."""
    with localcontext(prec=200):
        value = parse_quantity(text)
        value = value.copy_sign(1).quantize(_FINEST, ROUND_CEILING).copy_sign(value)
        if not value:
            return "0"
        if text.endswith("i") and abs(value) >= 1024 and value == value.to_integral_value():
            return _binary(int(value))
        digits, exponent = _scaled(value)
    if text[-1].isdigit() and ("e" in text or "E" in text):
        return f"{digits}e{exponent}" if exponent else str(digits)
    return f"{digits}{_DECIMAL[exponent]}"


def _binary(value: int) -> str:
    power = 0
    while value % 1024 == 0 and power < len(_BINARY) - 1:
        value, power = value // 1024, power + 1
    return f"{value}{_BINARY[power]}"


def _scaled(value: Decimal) -> tuple[int, int]:
    """A whole number and the largest exponent, a multiple of three, that stand for `value`."""
    exponent = next(each for each in sorted(_DECIMAL, reverse=True) if (value.scaleb(-each)) % 1 == 0)
    return int(value.scaleb(-exponent)), exponent
