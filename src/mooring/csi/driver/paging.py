"""Pages of ListVolumes and ListSnapshots. Pure.

A token names the last item of the page before it, so it stays valid while items are created and deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi

_Item = TypeVar("_Item")
_TOKEN = "after:"


def page(
    items: Mapping[str, _Item], request: csi.ListVolumesRequest | csi.ListSnapshotsRequest
) -> tuple[dict[str, _Item], str]:
    """The items of the requested page, in the order of their names, and the token of the next page ("" after
    the last). Raises CsiError, ABORTED, for a token that this driver has not given out."""
    token = request.starting_token
    if token and not token.startswith(_TOKEN):
        raise CsiError(
            Code.ABORTED, f"starting_token {token!r} is none of this driver's: start again without one"
        )
    rest = [name for name in sorted(items) if not token or name > token.removeprefix(_TOKEN)]
    shown = rest[: request.max_entries or len(rest)]
    return {name: items[name] for name in shown}, _TOKEN + shown[-1] if len(shown) < len(rest) else ""
