"""Whether a device would shut out the machine that is meant. Pure."""

from __future__ import annotations

from uuid import UUID

from mooring.fence.interface import Target


def same_uuid(one: str, other: str) -> bool:
    """Whether two UUIDs are one, in whichever byte order: firmware and BMCs differ (SMBIOS puts the first
    three fields little-endian, IPMI reverses all)."""
    try:
        first, second = UUID(one.strip()), UUID(other.strip())
    except ValueError:
        return False
    return second in (first, UUID(bytes_le=first.bytes), UUID(bytes=first.bytes[::-1])) or second == UUID(
        bytes_le=first.bytes[::-1]
    )


def is_uuid(text: str) -> bool:
    """Whether it names a machine: some BMCs tell 0 or all ones."""
    try:
        return UUID(text.strip()).int not in (0, (1 << 128) - 1)
    except ValueError:
        return False


def mismatch(target: Target, told: str) -> str:
    """Why the device with this UUID is not the target's; "" if it may be."""
    known = {"its BMC's GUID": target.bmc_guid, "its systemUUID": target.system_uuid}
    known = {what: uuid for what, uuid in known.items() if is_uuid(uuid)}
    if not is_uuid(told) or not known or any(same_uuid(uuid, told) for uuid in known.values()):
        return ""
    what = " and ".join(f"{name} is {uuid}" for name, uuid in known.items())
    return f"the device tells {told}, but of {target.node} {what}"
