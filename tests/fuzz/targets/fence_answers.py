"""What fence agents say of themselves, and programs of BMCs, disks and storage servers: read, or refused."""

from __future__ import annotations

import contextlib

from mooring.fence.agents.guid import guid_of
from mooring.fence.agents.metadata import BadMetadata, parse
from mooring.fence.identity import is_uuid
from mooring.fence.storage import nfsd_clients, nvme_report, reservations, tgt_targets

SEEDS = [
    b'<?xml version="1.0" ?><resource-agent name="fence_x"><parameters><parameter name="ip" obsoletes="ipaddr">'
    b'<content type="string" default="a" /><shortdesc lang="en">Address</shortdesc></parameter></parameters>'
    b'<actions><action name="off" /></actions></resource-agent>',
    b"<!DOCTYPE a [<!ENTITY b 'c'>]><resource-agent/>",
    b"Target 1: iqn.x:a\n    I_T nexus information:\n        I_T nexus: 4\n            Initiator: iqn.x:n1 alias: a\n"
    b"            Connection: 0\n                IP Address: 10.88.1.1\n    ACL information:\n        ALL\n",
    b"tgt lun sid rd_subm(bytes,cmds) errs\n  1   1   4   4096   1   4096   1   69632   136   69632   136   1\n",
    b"  PR generation=0x2, 1 registered reservation keys follow:\n    0xa1\n  PR generation=0x3, Reservation follows:\n"
    b"    Key=0xa1\n    scope: LU_SCOPE,  type: Write Exclusive, registrants only\n",
    b'@ /proc/fs/nfsd/clients/3\naddress: "10.88.1.1:812"\n/srv/a  10.88.1.0/24(sync,wdelay,rw)\n',
    b'{"gen":3,"rtype":3,"regctl":1,"ptpls":0,"regctlext":[{"cntlid":65535,"rcsts":1,"rkey":161,'
    b'"hostid":"20ba8dd9d1d24001b7825c1db3a414d3"}]}',
    b"System GUID  : 01234567-89ab-cdef-0123-456789abcdef\nTimestamp    : 01/01/1970\n",
]


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    assert guid_of(text) == "" or is_uuid(guid_of(text))
    for served in tgt_targets.parse(text).values():
        assert served.number.isdecimal()
    assert all(many >= 0 for many in tgt_targets.traffic(text).values())
    for client in nfsd_clients.known(text):
        assert client.directory.startswith(nfsd_clients.CLIENTS)
    for read in (reservations.keys, reservations.reservation, nvme_report.parse):
        with contextlib.suppress(reservations.Unreadable):
            read(text)
    try:
        found = parse(text)
    except BadMetadata:
        return
    assert found.agent and found.actions
