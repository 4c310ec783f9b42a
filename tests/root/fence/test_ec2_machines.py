"""An instance that is a machine: when EC2 says that it is stopped, it writes nothing any more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

import pytest
from cloud_server import CREDENTIALS, served
from heartbeat_machine import HeartbeatMachine

from mooring.cloud.power import SocketPower
from mooring.cluster.machines import cgroup
from mooring.fence.cloud.ec2 import Ec2
from mooring.fence.interface import Order, Outcome, State, Target

pytestmark = pytest.mark.root


@dataclass
class Switch:
    """Listens at a socket and switches the machine."""

    machine: HeartbeatMachine
    fails: int = 1

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        order = (await reader.readline()).decode()
        if self.fails:
            self.fails -= 1
            writer.write(b"not now\n")
        else:
            await (self.machine.start() if order.startswith("on ") else self.machine.lose_power())
            writer.write(b"done\n")
        writer.close()


async def test_an_instance_that_is_stopped_writes_nothing_any_more(tmp_path: Path):
    machine, path = HeartbeatMachine("node-1", tmp_path), str(tmp_path / "power.sock")
    await machine.start()
    try:
        async with await asyncio.start_unix_server(Switch(machine).answer, path):
            with served(1, SocketPower(path), stopping_s=[0.2, 0.2]) as cloud:
                told = await asyncio.to_thread(cloud.client().describe_instances)
                [instance] = told["Reservations"][0]["Instances"]
                target = Target(
                    *("node-1", "uid", "boot"),
                    provider_id=f"aws:///us-east-1a/{instance['InstanceId']}",
                    launched=instance["LaunchTime"].isoformat(),
                )
                given = {"endpoint": cloud.server.endpoint, "access_key_id": CREDENTIALS.access_key}
                order = Order(target, "t", given, {"secret_access_key": CREDENTIALS.secret_key}, 30)
                assert await machine.writes()
                answer = await Ec2().fence(order)
                assert (answer.outcome, answer.before) == (Outcome.FENCED, State.OPEN)
                assert not await machine.writes()
                assert (await Ec2().unfence(order)).outcome is Outcome.UNFENCED
                assert await machine.writes()
    finally:
        await machine.destroy()
        cgroup.remove_empty(tmp_path)
