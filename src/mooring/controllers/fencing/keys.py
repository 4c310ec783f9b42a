"""Keys of the fencing controller's queue."""

from __future__ import annotations

from typing import ClassVar, TypeAlias

from mooring.kube.keys import NodeKey, ObjectKey


class FenceKey(ObjectKey, frozen=True, gc=False):
    """A NodeFence."""

    kind: ClassVar[str] = "fence"


class MechanismKey(ObjectKey, frozen=True, gc=False):
    """A FenceMechanism."""

    kind: ClassVar[str] = "mechanism"


class PolicyKey(ObjectKey, frozen=True, gc=False):
    """A FencePolicy."""

    kind: ClassVar[str] = "policy"


class RemediationKey(ObjectKey, frozen=True, gc=False):
    """A FenceRemediation."""

    kind: ClassVar[str] = "remediation"


Key: TypeAlias = NodeKey | FenceKey | MechanismKey | PolicyKey | RemediationKey
