"""Fields that are a number of pods or a percentage of them: Kubernetes' IntOrString. Pure."""

from __future__ import annotations


def portion(amount: int | str, whole: int, *, up: bool) -> int:
    """Returns the number itself, or the percentage ("25%") of `whole`, rounded up or down; exact."""
    if isinstance(amount, int):
        return amount
    share = int(amount.removesuffix("%")) * whole
    return -(-share // 100) if up else share // 100
