"""Sizes: which one a volume gets for a CapacityRange. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True)
class Sizes:
    """The sizes, in bytes, that a storage has."""

    smallest: int = MIB
    largest: int = 16 * 1024 * GIB
    step: int = MIB
    """Sizes are rounded up to a multiple of it, unless a request's limit forbids that."""
    default: int = GIB
    """For requests without a size."""

    def choose(self, wanted: csi.CapacityRange, least: int = 0) -> int:
        """The size for a request, and at least `least`. Raises CsiError, OUT_OF_RANGE."""
        asked = max(wanted.required_bytes, least) or min(self.default, wanted.limit_bytes or self.default)
        asked = max(asked, self.smallest)
        rounded = -(-asked // self.step) * self.step
        largest = min(self.largest, wanted.limit_bytes or self.largest)
        size = rounded if rounded <= largest else asked
        if size > largest:
            raise CsiError(
                Code.OUT_OF_RANGE, f"{size} bytes: here a volume has from {self.smallest} to {largest} bytes"
            )
        return size


def fits(size: int, wanted: csi.CapacityRange) -> bool:
    """Whether a volume of that size is what the request asks for."""
    return size >= wanted.required_bytes and (not wanted.limit_bytes or size <= wanted.limit_bytes)
