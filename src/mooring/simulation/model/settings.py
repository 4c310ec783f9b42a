"""What takes part in a run of the model: nodes, storage, faults; and which rules are switched off."""

from __future__ import annotations

from typing import NamedTuple

RULES = {
    "C1": "a report carries the resourceVersion of the Node that it was computed from",
    "C1s": "the leader of another shard writes a Node with the resourceVersion that it has read",
    "R1": "a detach marks the VolumeAttachment before it un-reports",
    "R2": "the deletion carries the resourceVersion that the mark returned",
    "R3": "a report looks at the VolumeAttachment live, after the Node",
    "R4": "an un-report changes the Node, also when the volume is not listed",
    "R5": "the agent looks at the VolumeAttachment live, after its own publication",
    "C5": "an agent says nothing before it has reconstructed its mounts",
    "C6": "an agent's status writes carry the Node's resourceVersion",
    "C7": "only the un-report's answer is judged",
    "C8": "the evidence of a fence names the boot that the API showed",
    "C9": "of an absent Node only a fence counts that was begun after its absence",
    "C10": "only Ready=Unknown is silence",
    "C11": "a taint under which the node has reported is spent",
    "C12b": "an operator's statement is void once the node has reported",
    "C13": "a Node of another uid speaks for old mounts only when its agent has looked",
    "C13b": "a registration carries the volumes in use",
    "C14": "the lock is swapped before the VolumeAttachments are listed",
    "C14b": "attacher, report and agent compare the epoch",
    "C15": "the finalizer stays while a request may be outstanding",
    "C16": "a forced release advances the epoch and closes the node",
}
"""Each with what it says; `docs/protocol.md` has the schedule that does harm without it."""


class Settings(NamedTuple):
    """`storage`: E refuses a second attach and cuts the old node off, M only cuts off, N neither. `coarse`:
    the handshake is one step. `faults`: of FAULTS. `off`: rules that are switched off."""

    nodes: int = 1
    pods: tuple[int, ...] = (0,)
    """The nodes that pods come to."""
    standing: bool = False
    """They are there from the start and stay; else they come and go."""
    leaders: int = 1
    storage: str = "E"
    coarse: bool = False
    faults: frozenset[str] = frozenset()
    off: frozenset[str] = frozenset()
    timer: bool = False
    heartbeats: bool = True
    """Agents also report when nothing has changed."""

    @property
    def locked(self) -> bool:
        return self.storage != "E"

    @property
    def revokes(self) -> bool:
        return self.storage != "N"

    def has(self, fault: str) -> bool:
        return fault in self.faults

    def holds(self, rule: str) -> bool:
        """Whether a rule is in force."""
        return rule not in self.off


FAULTS = {
    "restart": "the agent is killed and starts again",
    "partition": "the agent does not reach the API",
    "power": "the machine loses power, and gets it back",
    "late-agent": "a status write arrives after its sender has given it up",
    "attacher": "the attacher is killed; its request goes on",
    "taint": "an operator taints a node whose machine is off",
    "statement": "an operator states that a machine is dead which is off",
    "fence": "a fence switches a machine off and says so",
    "delete": "an operator deletes the Node of a machine that is off",
    "wrong-delete": "an operator deletes a Node whose machine runs",
    "shard": "the leader of another shard writes the Nodes, too",
    "not-ready": "the agent says that the node is not ready",
}
