"""How full each pod's volumes are, as the nodes' agents report it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from mooring.cluster.tables import NO_NUMBER, Row, Section, Told, ordered
from mooring.kube.client import Client
from mooring.kube.errors import KubeError, Unreachable
from mooring.kube.objects import Node
from mooring.kube.quantity import format_bytes

_HEADER = ("MOUNTED VOLUME", "CLAIM", "POD", "NODE", "SIZE", "USED", "AVAILABLE", "USED %")


async def usage(client: Client) -> list[Section]:
    """One table. A node that does not answer has a row that says so."""
    rows: list[Row] = []
    for node in (await client.list(Node)).items:
        try:
            page = await client.request(
                "GET", f"{Node.RESOURCE.path(None, node.name, 'proxy')}/stats/summary"
            )
        except Unreachable:
            raise
        except KubeError as error:
            rows.append(("-", "-", "-", f"{node.name}: {error}", *[NO_NUMBER] * 4))
            continue
        rows += rows_of(json.loads(page))
    return [Section(_HEADER, ordered(rows))] if rows else []


def rows_of(summary: Mapping[str, Any]) -> Iterable[Row]:
    """The rows of one node's summary."""
    node = summary["node"]["nodeName"]
    for pod in summary["pods"]:
        name = f"{pod['podRef']['namespace']}/{pod['podRef']['name']}"
        for volume in pod["volume"]:
            capacity, used, free = (volume[key] for key in ("capacityBytes", "usedBytes", "availableBytes"))
            share = round(100 * used / capacity) if capacity else NO_NUMBER
            claim = volume.get("pvcRef", {}).get("name", "-")
            yield (volume["name"], claim, name, node, _size(capacity), _size(used), _size(free), share)


def _size(count: int) -> Told:
    """About three digits for people, bytes for programs."""
    unit = 1
    while count // unit >= 1024 * 10:
        unit *= 1024
    return Told(format_bytes(count // unit * unit) if count else "0", count)
