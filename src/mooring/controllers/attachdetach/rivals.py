"""Notices that another attach/detach controller is active: upstream's, or one without leader election.

Two of them do not lose data (each write carries what it was computed from), but they undo each other's work, and the
other one may know fewer rules. So it is said: a warning in the log, a metric, and an event on the Node.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.controllers.attachdetach import metrics
from mooring.kube.objects import Node, VolumeAttachment
from mooring.volumes.names import ATTACHER, PLUGIN

REPEAT_S = 300.0
ADVICE = (
    "another attach/detach controller is active: run one only, kube-controller-manager with "
    "--controllers=*,-persistentvolume-attach-detach-controller"
)


class Rivals:
    """`tell(node, message)` says it to people; `active` is set once the caches are filled."""

    def __init__(self, tell: Callable[[str, str], None]) -> None:
        self._tell = tell
        self._expected: dict[str, frozenset[str]] = {}  # node -> the list that is being written, or was last
        self._told: dict[str, float] = {}
        self.active = False

    def writing(self, node: str, volumes: frozenset[str]) -> None:
        """This controller is about to write a Node's list."""
        self._expected[node] = volumes

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """Looks at a change of a Node: a list that changes to something else than what was written here."""
        if not self.active or old is None or new is None or old.uid != new.uid:
            return
        listed = frozenset(entry.name for entry in new.status.volumes_attached)
        before = frozenset(entry.name for entry in old.status.volumes_attached)
        if listed != before and listed != self._expected.get(new.name):
            changed = ", ".join(sorted(listed ^ before)[:3])
            self._say("node-status", new.name, f"volumesAttached of node {new.name} was changed ({changed}); {ADVICE}")

    def record_changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        """Looks at a VolumeAttachment that appears: ours say which volume they are about."""
        if not self.active or old is not None or new is None or new.spec.attacher == ATTACHER:
            return
        if PLUGIN not in new.metadata.annotations:
            said = f"VolumeAttachment {new.name} was created by somebody else; {ADVICE}"
            self._say("volume-attachment", new.spec.node_name, said)

    def _say(self, kind: str, node: str, message: str) -> None:
        metrics.foreign(kind)
        now = asyncio.get_running_loop().time()
        if now - self._told.get(node, float("-inf")) >= REPEAT_S:
            self._told[node] = now
            self._tell(node, message)
