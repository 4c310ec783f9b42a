"""What a driver's refusal to grow a volume means."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from mooring.csi.errors import Code, CsiError
from mooring.volumes.errors import SizeInfeasible, VolumeError

NEVER = frozenset({Code.INVALID_ARGUMENT, Code.OUT_OF_RANGE, Code.NOT_FOUND})
"""Codes after which upstream's resizer and kubelet count the size as infeasible (KEP-1790)."""


@contextmanager
def growing() -> Generator[None, None, None]:
    """Raises SizeInfeasible for a driver's answer that will be the same again."""
    try:
        yield
    except VolumeError as error:
        answer = error.__cause__
        if isinstance(answer, CsiError) and answer.code in NEVER:
            raise SizeInfeasible(str(error)) from answer
        raise
