"""What fence agents say of themselves and ipmitool of a BMC: read, or refused by BadMetadata."""

from __future__ import annotations

from mooring.fence.agents.guid import guid_of
from mooring.fence.agents.metadata import BadMetadata, parse
from mooring.fence.identity import is_uuid

SEEDS = [
    b'<?xml version="1.0" ?><resource-agent name="fence_x"><parameters><parameter name="ip" obsoletes="ipaddr">'
    b'<content type="string" default="a" /><shortdesc lang="en">Address</shortdesc></parameter></parameters>'
    b'<actions><action name="off" /></actions></resource-agent>',
    b"<!DOCTYPE a [<!ENTITY b 'c'>]><resource-agent/>",
    b"System GUID  : 01234567-89ab-cdef-0123-456789abcdef\nTimestamp    : 01/01/1970\n",
]


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    assert guid_of(text) == "" or is_uuid(guid_of(text))
    try:
        found = parse(text)
    except BadMetadata:
        return
    assert found.agent and found.actions
