"""Which size a volume gets."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.csi.driver.capacity import GIB, MIB, Sizes, fits
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

SIZES = Sizes()
BYTES = st.integers(0, 2**63 - 1) | st.integers(0, 4 * GIB)


@settings(deadline=None)
@given(BYTES, BYTES, BYTES)
def test_a_size_is_what_was_asked_for_or_refused(required: int, limit: int, least: int) -> None:
    wanted = csi.CapacityRange(required_bytes=required, limit_bytes=limit)
    try:
        size = SIZES.choose(wanted, least)
    except CsiError as error:
        assert error.code is Code.OUT_OF_RANGE
        largest = min(SIZES.largest, limit or SIZES.largest)
        assert max(required, least, SIZES.smallest) > largest
    else:
        assert fits(size, wanted)
        assert max(least, SIZES.smallest) <= size <= SIZES.largest


@pytest.mark.parametrize(
    ("required", "limit", "size"),
    [(0, 0, GIB), (0, MIB, MIB), (MIB + 1, 0, 2 * MIB), (MIB + 1, MIB + 2, MIB + 1)],
)
def test_sizes_are_rounded_up_unless_the_limit_forbids_it(required: int, limit: int, size: int) -> None:
    assert SIZES.choose(csi.CapacityRange(required_bytes=required, limit_bytes=limit)) == size
