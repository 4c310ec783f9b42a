"""Whether a device is the target's: UUIDs in the byte orders that firmware and BMCs use."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.fence.agents.guid import guid_of
from mooring.fence.identity import is_uuid, mismatch, same_uuid
from mooring.fence.interface import Target

ONE = "01234567-89ab-cdef-0123-456789abcdef"
SMBIOS = "67452301-ab89-efcd-0123-456789abcdef"
IPMI = "efcdab89-6745-2301-efcd-ab8967452301"


@pytest.mark.parametrize("other", [ONE, ONE.upper(), SMBIOS, IPMI, f" {ONE}\n"])
def test_one_uuid_in_every_byte_order_is_one(other: str):
    assert same_uuid(ONE, other) and same_uuid(other, ONE)


@given(st.uuids(), st.uuids())
def test_other_uuids_are_others(one: UUID, other: UUID):
    orders = {one, UUID(bytes_le=one.bytes), UUID(bytes=one.bytes[::-1]), UUID(bytes_le=one.bytes[::-1])}
    assert same_uuid(str(one), str(other)) == (other in orders)


@given(st.text(), st.text())
def test_what_is_no_uuid_is_never_the_same(one: str, other: str):
    assert not same_uuid(one, other) or is_uuid(one) or UUID(one)


def test_only_what_is_known_on_both_sides_can_disagree():
    def target(**known: str) -> Target:
        return Target("node-1", "uid", "boot", **known)

    assert mismatch(target(), ONE) == ""
    assert mismatch(target(system_uuid=ONE), "") == ""
    assert mismatch(target(system_uuid=ONE), "00000000-0000-0000-0000-000000000000") == ""
    assert mismatch(target(system_uuid=SMBIOS), ONE) == ""
    assert mismatch(target(bmc_guid=str(UUID(int=5)), system_uuid=ONE), ONE) == ""
    assert ONE in mismatch(target(bmc_guid=str(UUID(int=5))), ONE)


def test_the_guid_is_read_from_what_ipmitool_prints():
    assert guid_of(f"System GUID  : {ONE.upper()}\nTimestamp    : 01/01/1970\n") == ONE
    assert guid_of("System GUID  : 00000000-0000-0000-0000-000000000000\n") == ""
    assert guid_of("Get GUID command failed") == ""


@given(st.text())
def test_any_answer_has_a_guid_or_none(text: str):
    assert guid_of(text) == "" or is_uuid(guid_of(text))
