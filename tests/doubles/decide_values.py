"""A node that answers, and a volume that is attached to it, as the attach/detach controller's rules see
them."""

from __future__ import annotations

from mooring.controllers.attachdetach.state import Attachment, NodeState

NODE = NodeState(
    name="n0",
    uid="uid-n0",
    ready="True",
    managed=True,
    reconstructed=True,
    reported=False,
    in_use=False,
    tainted=False,
    taint_spent=False,
    out_of_service=False,
)
ATTACHED = Attachment(
    name="va-n0",
    node="n0",
    attached=True,
    marked=False,
    deleting=False,
    node_uid="uid-n0",
    attach_error="",
    detach_error="",
)
