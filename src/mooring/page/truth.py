"""Reported against true: what differs, in words. Pure; who looks implements `Looks`.

Truth is what the kernel and the storage say themselves, asked where they are. It is known of clusters on this
machine only. A difference need not be a fault: after a power loss it is what everything waits for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from mooring.page.rows import Row
from mooring.page.text import message


@dataclass(frozen=True)
class Seen:
    """What is true now. `nodes`: the power of each machine, "on" or another word. `volumes`: by
    PersistentVolume and node, "attached" or "mounted"; a node that is left out has not got it. `troubles`: by
    node, what is wrong with the machine or its links, in words."""

    nodes: Mapping[str, str] = field(default_factory=dict[str, str])
    volumes: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    troubles: Mapping[str, str] = field(default_factory=dict[str, str])


class Looks(Protocol):
    """Looks at machines and storage."""

    async def look(self, handles: Mapping[str, str]) -> Seen:
        """What is true of these volumes: by PersistentVolume, the name that its storage knows it by. Raises
        OSError if it cannot look."""
        ...


def node_truth(key: str, row: Row, seen: Seen) -> Row:
    """The row of a node with what is true of it, if that is known."""
    power = seen.nodes.get(key)
    if power is None:
        return row
    trouble = {"trouble": message(seen.troubles[key])} if seen.troubles.get(key) else {}
    return {**row, "true": power, **trouble, **_differs(_of_node(row["phase"], power))}


def _of_node(phase: str, power: str) -> str:
    if power != "on":
        return "its machine has no power" if phase == "ready" and power == "off" else ""
    if phase == "silent":
        return "its machine runs, and may still write"
    return "its machine runs" if phase == "gone" else ""


def volume_truth(key: str, row: Row, seen: Seen) -> Row:
    """The row of a volume with what is true of it on each node, if that is known."""
    true = seen.volumes.get(key)
    if true is None:
        return row
    reported: dict[str, str] = {place["node"]: place["state"] for place in row.get("on", ())}
    on = {node: _with_power(state, seen.nodes.get(node, "on")) for node, state in true.items()}
    words = [_of_place(node, reported.get(node, ""), on.get(node, "")) for node in sorted({*reported, *on})]
    if len(true) > 1 and sum(state == "mounted" for state in on.values()) > 1:
        words.insert(0, f"mounted on {len(true)} nodes")
    return {**row, "true": on, **_differs("; ".join(word for word in words if word))}


def _with_power(state: str, power: str) -> str:
    return state if power == "on" else "attached, no power"


def _of_place(node: str, reported: str, true: str) -> str:
    """How the true state on a node differs from the reported one; "" if it does not, or is on its way."""
    if true == "mounted":
        return {"": f"mounted on {node}, and nothing says so", "detaching": f"still mounted on {node}"}.get(
            reported, ""
        )
    if true == "attached, no power":
        return f"{node} has no power: nothing is mounted there" if reported == "in-use" else ""
    if true == "attached":
        return f"attached to {node}, and nothing says so" if not reported else ""
    return f"not attached to {node}" if reported in ("attached", "in-use") else ""


def _differs(words: str) -> Row:
    return {"differs": words} if words else {}
