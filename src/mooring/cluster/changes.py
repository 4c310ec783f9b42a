"""What has changed of what is shown of a cluster, as lines: for logs and pipes, where nothing can be drawn
anew. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mooring.cluster.tables import text
from mooring.cluster.view import Snapshot, node_state, pod_cell, silent_nodes, volume_cell, volume_of
from mooring.kube.printable import printable


def facts(snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    """What is said of each object: its name, and its state as the tables have it."""
    mute = set(silent_nodes(snapshot))
    for node in snapshot.nodes:
        yield f"node {node.name}", node_state(node)
    for claim in snapshot.claims:
        yield f"claim {claim.key}", claim.status.phase
    for pod in snapshot.pods:
        yield f"pod {pod.key}", f"{text(pod_cell(pod, mute))} on {pod.spec.node_name or '(no node yet)'}"
    for record in snapshot.attachments:
        yield f"volume {volume_of(record)} on {record.spec.node_name}", text(volume_cell(record, mute))


def changes(
    before: Mapping[str, str], now: Mapping[str, str], stamp: str, gone: str = "gone"
) -> Iterator[str]:
    """A line for each fact that is new or another one, and for each that is no more: that is `gone`."""
    for what, state in now.items():
        if before.get(what) != state:
            yield printable(f"{stamp}  {what}: {state}")
    for what in before:
        if what not in now:
            yield printable(f"{stamp}  {what}: {gone}")
