"""The size of a volume for a CapacityRange. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

MIB = 1024 * 1024
GIB = 1024 * MIB


@dataclass(frozen=True)
class Sizes:
    """The sizes, in bytes, that a storage offers."""

    smallest: int = MIB
    largest: int = 16 * 1024 * GIB
    step: int = MIB
    """Sizes are rounded up to a multiple of this, unless the multiple exceeds the request's limit."""
    default: int = GIB
    """The size for a request without one."""

    def choose(self, wanted: csi.CapacityRange, least: int = 0) -> int:
        """The size for a request, `least` bytes or more. Raises CsiError, OUT_OF_RANGE."""
        needed = max(wanted.required_bytes, least) or min(self.default, wanted.limit_bytes or self.default)
        needed = max(needed, self.smallest)
        rounded = -(-needed // self.step) * self.step
        largest = min(self.largest, wanted.limit_bytes or self.largest)
        size = rounded if rounded <= largest else needed
        if size > largest:
            raise CsiError(
                Code.OUT_OF_RANGE, f"{size} bytes: here a volume has from {self.smallest} to {largest} bytes"
            )
        return size


def fits(size: int, wanted: csi.CapacityRange) -> bool:
    """Whether the size lies within the request's bounds."""
    return size >= wanted.required_bytes and (not wanted.limit_bytes or size <= wanted.limit_bytes)
