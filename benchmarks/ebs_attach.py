"""The EBS driver against EC2's quotas: `python -m benchmarks.ebs_attach [VOLUMES]`.

`mooring cloud --devices=off` with EC2's own quotas and delays, `aws-ebs-csi-driver controller`, and a client
that asks for `VOLUMES` attachments on 40 instances at once: each a process of its own. In turn: the driver as
it is; without batches and pacing (`--batching=false --pacing=false`), as an SDK's own retries have it. The
bound is what the quota of AttachVolume allows: 50 at once, then 5 a second. The cloud's time is real time.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from botocore.session import get_session
from tests.real.server import process

from benchmarks.attach_detach import cpu
from benchmarks.target import resident
from mooring.cluster.processes import mooring
from mooring.csi.client import Client
from mooring.csi.errors import Code, CsiError, NotConnected
from mooring.csi.proto import csi_pb2 as csi

INSTANCES = 40
BURST, RATE = 50, 5.0
"""EC2's documented bucket of AttachVolume: how many at once, and how many a second after that."""
CALL_S = 3600.0
WAYS = {"ours": (), "without batches and pacing": ("--batching=false", "--pacing=false")}
_MODE = csi.VolumeCapability.AccessMode.Mode.SINGLE_NODE_WRITER


@dataclass(frozen=True)
class Result:
    """`seconds` until the last volume was attached; calls are EC2's count of them."""

    seconds: float
    describes: int
    attaches: int
    throttled: int
    calls: int
    cpu_ms: float
    """Of the driver, a volume."""
    resident_mb: float
    retries: int
    """Calls of the driver that ended with an error, and were made again."""


class Cloud:
    """The cloud's process, as its control API and boto's client show it."""

    def __init__(self, environment: dict[str, str]) -> None:
        self._environment = environment
        self._endpoint = environment["AWS_ENDPOINT_URL_EC2"]

    def control(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._endpoint}/_cloud{path}", data=data, method=method)
        with urllib.request.urlopen(request, timeout=30) as reply:
            return json.load(reply)

    def instances(self) -> list[str]:
        return [each["instance_id"] for each in self.control("GET", "")["instances"]]

    def make_volumes(self, count: int) -> list[str]:
        """Volumes that are ready, whatever the quota says."""
        self.control("PATCH", "/settings", {"throttling": False, "creating_s": [0, 0]})
        ec2: Any = get_session().create_client(
            "ec2",
            region_name=self._environment["AWS_REGION"],
            endpoint_url=self._endpoint,
            aws_access_key_id=self._environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self._environment["AWS_SECRET_ACCESS_KEY"],
        )
        zone = self.control("GET", "")["instances"][0]["zone"]
        made = [
            ec2.create_volume(AvailabilityZone=zone, Size=1, VolumeType="gp3")["VolumeId"]
            for _ in range(count)
        ]
        self.control("PATCH", "/settings", {"throttling": True, "creating_s": [1.5, 4.0]})
        return made


@contextmanager
def cloud(folder: Path) -> Iterator[Cloud]:
    data = f"--data-dir={folder}/cloud"
    command = mooring("cloud", data, "--port=0", f"--instances={INSTANCES}", "--devices=off", "--seed=1")
    with process([*command, "--log-level=warning"], folder / "cloud.log"):
        while "for a client" not in (folder / "cloud.log").read_text():
            subprocess.run(["sleep", "0.1"], check=True)
        told = subprocess.run(
            mooring("cloud", "env", data), check=True, capture_output=True, text=True
        ).stdout
        lines = (line.removeprefix("export ").split("=", 1) for line in told.splitlines())
        environment = dict(lines)
        os.environ.update(environment)
        yield Cloud(environment)


async def attach(client: Client, volume: str, node: str) -> int:
    """How many tries it took, beside the last."""
    capability = csi.VolumeCapability(mount={}, access_mode={"mode": _MODE})
    request = csi.ControllerPublishVolumeRequest(volume_id=volume, node_id=node, volume_capability=capability)
    for tries in range(1000):
        try:
            await client.controller.controller_publish_volume(request, timeout_s=CALL_S)
            return tries
        except CsiError as error:
            if error.code in (Code.INVALID_ARGUMENT, Code.NOT_FOUND, Code.FAILED_PRECONDITION):
                raise
            await asyncio.sleep(1.0)
    raise RuntimeError(f"{volume} is not attached")


async def measure(folder: Path, count: int, flags: Sequence[str]) -> Result:
    with cloud(folder) as ec2:
        volumes, nodes = ec2.make_volumes(count), ec2.instances()
        endpoint = f"unix://{folder}/csi.sock"
        command = mooring("ebs-driver", "controller", "--endpoint", endpoint, "-v=0", *flags)
        with process(command, folder / "driver.log") as driver:
            async with Client(endpoint) as client:
                await _ready(client)
                await asyncio.sleep(6.0)  # past the time for which a new process believes no description
                ec2.control("DELETE", "/counters")
                before, began = cpu(driver.pid), asyncio.get_running_loop().time()
                pairs = [(volume, nodes[number % len(nodes)]) for number, volume in enumerate(volumes)]
                retries = sum(await asyncio.gather(*(attach(client, volume, node) for volume, node in pairs)))
                seconds = asyncio.get_running_loop().time() - began
                counted = ec2.control("GET", "/counters")
            return Result(
                seconds,
                sum(each["calls"] for action, each in counted.items() if action.startswith("Describe")),
                counted["AttachVolume"]["calls"],
                sum(each["throttles"] for each in counted.values()),
                sum(each["calls"] for each in counted.values()),
                (cpu(driver.pid) - before) / count * 1000,
                resident([driver.pid]) / 1e6,
                retries,
            )


async def _ready(client: Client) -> None:
    for _ in range(300):
        try:
            await client.identity.probe(csi.ProbeRequest(), timeout_s=10)
            return
        except NotConnected:
            await asyncio.sleep(0.1)
    raise RuntimeError("the driver does not come up")


def show(name: str, count: int, it: Result) -> None:
    bound = (count - BURST) / RATE
    print(f"{name}:")
    print(
        f"  {it.seconds:.1f} s for {count} attachments, {it.seconds / bound:.3f} of the bound ({bound:.0f} s)"
    )
    print(f"  {it.describes} Describe calls, {it.describes / it.seconds:.2f} a second")
    print(f"  {it.throttled} of {it.calls} calls throttled ({100 * it.throttled / it.calls:.1f} %)")
    print(f"  {it.attaches} AttachVolume calls, {it.retries} calls of the driver repeated")
    print(f"  CPU {it.cpu_ms:.2f} ms a volume; {it.resident_mb:.0f} MB")


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for name, flags in WAYS.items():
        with tempfile.TemporaryDirectory(prefix="mooring-ebs-") as folder:
            show(name, count, asyncio.run(measure(Path(folder), count, flags)))


if __name__ == "__main__":
    main()
