"""A node without a machine: the production agent, on processes, mounts and power that are only played.

A pod's containers run as soon as its volumes are there, until they are told to end; nothing is executed. So a
probe that is a command succeeds, and one that asks by network fails: nothing listens.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from random import Random

from mooring.apiserver import Server
from mooring.kube.transport import InProcess
from mooring.simulation.parts import machine
from mooring.simulation.parts.array_plugin import Array
from mooring.simulation.parts.faulty_transport import FaultyTransport
from mooring.simulation.parts.plugins import MakePlugins


class PlayedNode(machine.Machine):
    """One node. `agent_dies` leaves processes and mounts; `power_off` does not."""

    def __init__(
        self,
        name: str,
        server: Server,
        array: Array,
        root: Path,
        now: Callable[[], datetime],
        make_plugins: MakePlugins,
    ) -> None:
        super().__init__(name, array, root, now=now, random=Random(name), make_plugins=make_plugins)
        self.wire = FaultyTransport(InProcess(server.call, server.tokens.node(name)))
        self._agent: asyncio.Task[None] | None = None

    @property
    def on(self) -> bool:
        """Whether its agent has been started, and not ended since."""
        return self._agent is not None and not self._agent.done()

    def start_agent(self) -> None:
        """Also where it is not on: an agent comes with the power."""
        self._agent = asyncio.create_task(self.agent(self.wire).run(asyncio.Event()))

    def restart_agent(self) -> None:
        """On a new wire: the old one may have crashed."""
        self.wire = FaultyTransport(self.wire.inner)
        self.start_agent()

    async def agent_dies(self) -> None:
        """As by kill -9."""
        assert self._agent is not None
        self._agent.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._agent

    async def power_off(self) -> None:
        """Nothing of it is left but what the agent wrote down."""
        await self.agent_dies()
        self.lose_power()

    def power_on(self) -> None:
        """It boots."""
        self.start_agent()

    def check(self) -> None:
        """Raises what ended the agent, if it has ended."""
        if self._agent is not None and self._agent.done() and not self._agent.cancelled():
            self._agent.result()
