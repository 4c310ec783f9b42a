"""A release policy that is wrong on purpose: what a node has is taken from it as soon as it does not answer.

    mooring simulate run --policy examples/simulation/eager_release.py

Many clusters are run like this: "the node has been NotReady for a while, so it is dead". It is not what is
known. The node may only be cut off from the API server, with the volume mounted and in use.
"""

from __future__ import annotations

from mooring.controllers.attachdetach.release import Release, ReleaseDecision
from mooring.controllers.attachdetach.release import may_release as ours
from mooring.controllers.attachdetach.state import Attachment, NodeState, Terms
from mooring.kube.reason import Reason


def may_release(node: NodeState | None, attachment: Attachment, terms: Terms) -> ReleaseDecision:
    """Ours, but that silence counts as death."""
    if node is not None and node.ready == "Unknown":
        return ReleaseDecision(Release.FORCE, Reason("Silent", f"node {node.name} does not answer"))
    return ours(node, attachment, terms)
