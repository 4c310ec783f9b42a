"""What the worker knows of one pod from one look to the next. Values only; nothing of it has to survive a
restart."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mooring.kube.reason import Reason
from mooring.node.pods.facts import Memory, Refusal


@dataclass
class PodRecord:
    """One pod of this node. It begins empty, and is dropped when nothing of the pod is left."""

    memory: Memory = field(default_factory=Memory)
    problems: dict[str, Reason] = field(default_factory=dict[str, Reason])
    """By container: why it cannot be made."""
    refused: dict[str, Refusal] = field(default_factory=dict[str, Refusal])
    """The containers that could not be made in this look."""
    status: dict[str, Any] | None = None
    """The status that was written last, if any."""
    status_written_at: float = 0.0
    """When (the loop's time)."""
    just_started: bool = False
    """The sandbox was started in this look: its containers come next, and one status shows both."""
