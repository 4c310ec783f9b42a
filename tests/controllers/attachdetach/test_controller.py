"""The controller's events, and what it remembers. Its actions are in the stories of
tests/cluster/in_process."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.kube.errors import NotFound
from mooring.simulation.parts.array_plugin import Array, ArrayPlugin
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager

Play = Callable[[Any], Any]


def test_what_has_gone_since_it_was_decided_about_is_decided_again(play: Play):
    async def schedule(stage: Any, a: Any, b: Any):
        plugins = PluginManager([ArrayPlugin(Array())], ControllerVolumeHost(stage.now))
        controller = AttachDetachController(stage.api, plugins, now=stage.now, random=Random(1))
        with pytest.raises(NotFound, match="no VolumeAttachment on node n0 any more"):
            controller._record("example.com/disk/d1", "n0")
        with pytest.raises(NotFound, match="node n0 does not exist any more"):
            controller._node("n0")

    play(schedule)
