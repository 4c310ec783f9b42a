"""The agent of a machine as a process: its signals, its lock, its network."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import uuid
from collections.abc import Generator
from dataclasses import replace
from ipaddress import IPv4Network, ip_address
from pathlib import Path
from random import Random
from signal import SIGINT, SIGTERM, SIGUSR1
from typing import Any

from mooring.kube.client import Client
from mooring.kube.times import Now
from mooring.mounts.blocking import blocking
from mooring.mounts.host import HostMounts
from mooring.node.agent import Agent
from mooring.node.bridge import NetworkUnavailable
from mooring.node.network import NodeNetwork, claim, release
from mooring.node.options import AgentOptions
from mooring.node.peer_door import udp
from mooring.node.process_runtime import ProcessRuntime
from mooring.node.self_fence.which import watchdog_at

REGISTRATIONS = "plugins_registry"
"""Below the agent's directory, as below the kubelet's."""


class AgentAlreadyRuns(Exception):
    """Another agent works on the same root directory. Two would unmount what the other one mounts."""


def agent_id(root: Path) -> str:
    """The ID of the agent that works in this directory, made if it has none, or if a power loss took it. It
    is on the disk when this returns."""
    path = root / "agent-id"
    with contextlib.suppress(FileNotFoundError, ValueError):
        return str(uuid.UUID(path.read_text().strip()))
    made = str(uuid.uuid4())
    new = path.with_suffix(".new")
    with new.open("w") as file:
        file.write(f"{made}\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    return made


async def run_agent(options: AgentOptions, client: Client, *, now: Now, random: Random) -> None:
    """Runs the agent of this machine, with real processes and mounts, until SIGTERM or SIGINT; pods go on.

    SIGUSR1 shuts the node down: pods end, everything is unmounted, then it returns. Raises
    `AgentAlreadyRuns`, `HeldByAnother`, `LeaseLost`.
    """
    options.root_dir.mkdir(parents=True, exist_ok=True)
    options = replace(options, agent_id=options.agent_id or agent_id(options.root_dir))
    runtime = ProcessRuntime(options.root_dir, options.boot_id)
    stop, shutdown = asyncio.Event(), asyncio.Event()
    with _only_agent(options.root_dir), _signals({SIGTERM: stop, SIGINT: stop, SIGUSR1: shutdown}):
        network, problem = await _network(options)
        agent = Agent(
            options,
            client,
            runtime=runtime,
            mounts=HostMounts(),
            now=now,
            random=random,
            network=network,
            network_problem=problem,
            csi_registrations=options.root_dir / REGISTRATIONS,
            watchdog=watchdog_at(options.self_fence) if options.self_fence is not None else None,
            peer_door=udp(_own_address(options, network), options.peer_port),
        )
        running = asyncio.create_task(agent.run(shutdown))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait((running, stopped), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                await running
                await blocking(release, options.root_dir)
        finally:
            await _cancel(running, stopped)
            await runtime.close()
            await client.close()


async def _network(options: AgentOptions) -> tuple[NodeNetwork | None, str]:
    """The network for pods, or why there is none."""
    if not options.pod_network:
        return None, ""
    try:
        return await blocking(claim, options.root_dir, IPv4Network(options.pod_network)), ""
    except NetworkUnavailable as error:
        return None, str(error)


def _own_address(options: AgentOptions, network: NodeNetwork | None) -> str:
    """Where peers reach this node: agents of one host share its loopback address, and have one each on the
    pods' network."""
    with contextlib.suppress(ValueError):  # a name
        if network is not None and ip_address(options.address).is_loopback:
            return str(network.gateway)
    return options.address


async def _cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def _signals(events: dict[signal.Signals, asyncio.Event]) -> Generator[None, None, None]:
    """Sets an event for each signal; signals that were blocked until there is a handler are let through."""
    loop = asyncio.get_running_loop()
    for number, event in events.items():
        loop.add_signal_handler(number, event.set)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, events)
    try:
        yield
    finally:
        for number in events:
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def _only_agent(root: Path) -> Generator[None, None, None]:
    with open(root / "agent.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise AgentAlreadyRuns(
                f"another node agent works in {root}: stop it, or give another directory"
            ) from None
        yield
