"""The GUID in what `ipmitool mc guid` prints. Pure."""

from __future__ import annotations

import re

from mooring.fence.identity import is_uuid

_GUID = re.compile(
    r"^\s*System GUID\s*:\s*([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\s*$",
    re.IGNORECASE | re.MULTILINE | re.ASCII,
)


def guid_of(output: str) -> str:
    """Empty if it tells none, or none that names a machine."""
    found = _GUID.search(output)
    return found[1].lower() if found and is_uuid(found[1]) else ""
