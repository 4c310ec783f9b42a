"""Notices that another attach/detach controller is active: upstream's, or one without leader election.

Two of them lose no data, since each write carries what it was computed from. But they undo each
other's work, and the other one may know fewer rules. So it is reported: a warning in the log, a
metric, and an event on the Node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.controllers.attachdetach import metrics
from mooring.kube.objects import Node, VolumeAttachment
from mooring.volumes.names import ATTACHER, PLUGIN

REPEAT_S = 300.0
"""Seconds between two reports about one node."""
ADVICE = (
    "another attach/detach controller is active: run one only, kube-controller-manager with "
    "--controllers=*,-persistentvolume-attach-detach-controller"
)


class ForeignWrites:
    """`report(node, message)` is called at most once in `REPEAT_S` for a node. `active` is set once the
    caches are filled."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        # node -> the hash of the list written last, or being written: the list itself would be kept, with
        # volumes that are gone, where another controller has written since
        self._expected: dict[str, int] = {}
        self._reported: dict[str, float] = {}  # node -> when (the loop's time)
        self.active = False

    def writing(self, node: str, volumes: frozenset[str]) -> None:
        """Expects the list that this controller is about to write to a Node."""
        self._expected[node] = hash(volumes)

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Handler of the cache of Nodes: notices a list that changes to one that this
        controller did not write."""
        if old is not None and new is None:
            self._expected.pop(old.name, None)
            self._reported.pop(old.name, None)
        if not self.active or old is None or new is None:
            return
        listed = frozenset(entry.name for entry in new.status.volumes_attached)
        before = frozenset(entry.name for entry in old.status.volumes_attached)
        if listed != before and hash(listed) != self._expected.get(new.name):
            changed = ", ".join(sorted(listed ^ before)[:3])
            self._notice(
                "node-status",
                new.name,
                f"volumesAttached of node {new.name} was changed ({changed}); {ADVICE}",
            )

    def record_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        """Handler of the cache of VolumeAttachments: notices a new one that does not name
        its volume, as ours do."""
        if not self.active or old is not None or new is None or new.spec.attacher == ATTACHER:
            return
        if PLUGIN not in new.metadata.annotations:
            message = f"VolumeAttachment {new.name} was created by another controller; {ADVICE}"
            self._notice("volume-attachment", new.spec.node_name, message)

    def _notice(self, kind: str, node: str, message: str) -> None:
        metrics.foreign(kind)
        now = asyncio.get_running_loop().time()
        if now - self._reported.get(node, float("-inf")) >= REPEAT_S:
            self._reported[node] = now
            self._report(node, message)
