"""An attach/detach controller whose caches a test fills, and whose decisions it makes."""

from __future__ import annotations

from random import Random
from typing import Any
from unittest.mock import Mock

import pytest

from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.controllers.attachdetach.state import Action, Attachment, Demand, VolumeDecision, VolumeState
from mooring.kube.client import Client
from mooring.kube.objects import ObjectMeta, VolumeAttachment, VolumeAttachmentSpec
from mooring.kube.reason import Reason
from mooring.simulation.parts.array_plugin import DISK, Array, ArrayPlugin
from mooring.volumes.attachment_lock import Lock
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import ATTACHER, PLUGIN, VOLUME_NAME
from mooring.volumes.plugin_manager import PluginManager

VOLUME = f"{DISK}/d1"
RECORD = VolumeAttachment(
    metadata=ObjectMeta(
        name="va", uid="u", resource_version="5", annotations={PLUGIN: DISK, VOLUME_NAME: "d1"}
    ),
    spec=VolumeAttachmentSpec(attacher=ATTACHER, node_name="n0"),
)
DEMANDS = (Demand("n0", ("default/p",), "1", True),)
STATE = VolumeState(VOLUME, False, DEMANDS, (Attachment.of(RECORD),), {}, lock=Lock(epoch=3, node="n0"))


def controller(now: Any) -> AttachDetachController:
    """One whose caches a test fills."""
    plugins = PluginManager([ArrayPlugin(Array())], ControllerVolumeHost(now))
    return AttachDetachController(Client(Mock()), plugins, now=now, random=Random(1))


def decided(
    made: AttachDetachController, monkeypatch: pytest.MonkeyPatch, *decisions: VolumeDecision
) -> None:
    """Whatever is looked at, this is decided."""
    monkeypatch.setattr(made, "_state", lambda volume: STATE)
    monkeypatch.setattr("mooring.controllers.attachdetach.controller.decide", lambda state: decisions)


def decision(action: Action, node: str = "n0") -> VolumeDecision:
    return VolumeDecision(action, Reason("R", "r"), node, ("default/p",))
