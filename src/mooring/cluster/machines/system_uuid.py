"""The UUID that a machine's firmware tells: what its node reports as systemUUID, and its BMC as GUID.

It is made once and stays the machine's, over all boots, as long as the data directory exists.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from uuid import UUID, uuid4

from mooring.cluster.layout import ClusterError


def system_uuid(node_directory: Path) -> UUID:
    """Of the machine of the node with that root directory. Blocks. Raises ClusterError if the record is
    damaged."""
    record = node_directory / "system-uuid"
    with contextlib.suppress(FileExistsError):
        node_directory.mkdir(parents=True, exist_ok=True)
        with record.open("x") as file:
            file.write(f"{uuid4()}\n")
    try:
        return UUID(record.read_text().strip())
    except ValueError as error:
        raise ClusterError(f"{record} holds no UUID: remove it, and the machine gets another one") from error
