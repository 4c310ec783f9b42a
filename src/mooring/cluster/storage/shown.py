"""What `mooring status` and `mooring storage list` show of storage servers: a row for each.

The running `mooring up` answers it (`SAID` at the control socket), as it alone knows who is connected.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

from mooring.cluster import control
from mooring.cluster.layout import ClusterError
from mooring.cluster.tables import NO_NUMBER, Row, Section, Told
from mooring.kube.quantity import format_bytes

SAID = "storage-list"
"""The command at the control socket; its message is JSON."""
HEADER = ("SERVER", "KIND", "ADDRESS", "SIZE", "DISKS", "CONNECTED", "SHUT OUT", "STATE")


async def section(socket: Path) -> list[Section]:
    """The table; none if there is no server, no machine that could use one, or no `mooring up` that runs."""
    with contextlib.suppress(ClusterError):
        if found := json.loads(await control.say(socket, SAID, "")):
            return [Section(HEADER, [row(each) for each in found])]
    return []


def row(server: dict[str, Any]) -> Row:
    """Of one server, as the answer has it; one whose record is damaged has a name and a problem only."""
    if "kind" not in server:
        return (server["name"], "-", "-", NO_NUMBER, NO_NUMBER, "-", "-", server["problem"])
    lists = [", ".join(server[column]) or "-" for column in ("connected", "shutOut")]
    state = server["problem"] or ("serves" if server["serves"] else "does not run")
    size = Told(format_bytes(server["size"]), server["size"])
    return (
        server["name"],
        server["kind"],
        server["address"] or "-",
        size,
        server["disks"],
        *lists,
        state,
    )
