"""kill -9 of each part at random moments under load: nothing that was synced is lost, nothing is left behind.

Reduced in `make test`; whole in `make soak` (MOORING_SOAK). Prints the seed, and for each part what it was
doing when it was killed (the awaits of its tasks).
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from mooring.cluster.demo.scene import examples
from mooring.cluster.processes import Running
from mooring.cluster.stage import Stage
from mooring.kube.errors import KubeError
from mooring.kube.objects import Node, PersistentVolumeClaim, Pod, StatefulSet, VolumeAttachment

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.soak, pytest.mark.timeout(3000)]

REPLICAS = 4
NODES = 3
ROUNDS = 60 if os.environ.get("MOORING_SOAK") else 10
AWAITS = re.compile(r'event=task .*awaits="([^"]*)"')
# Innermost coroutines that only wait for something to do.
IDLE = frozenset(
    {
        "__aexit__",
        "_send",
        "_wait",
        "_wait_for_data",
        "_watch",
        "_work",
        "acquire",
        "changed",
        "get",
        "next_event",
    }
    | {"read", "receive", "run", "sleep", "start", "story", "wait"}
)


async def awaited(victim: Running, log: Path) -> list[str]:
    """What the tasks of a part await at this moment, those that only wait for work left out. Asks it with
    SIGUSR2."""
    start = log.stat().st_size
    victim.send(signal.SIGUSR2)
    await asyncio.sleep(0.02)
    with log.open("rb") as file:
        file.seek(start)
        chains = AWAITS.findall(file.read().decode(errors="replace"))
    return sorted(
        {" > ".join(word.split()[-1] for word in chain.split(" > ")) for chain in chains if busy(chain)}
    )


def busy(chain: str) -> bool:
    return chain.rsplit(maxsplit=1)[-1] not in IDLE


def agent_of(stage: Stage, node: str) -> Running | None:
    init = stage.machine(node)
    return _first(b"agent", init.children() if init else [])


def supervisor_of(stage: Stage, node: str) -> Running | None:
    init, agent = stage.machine(node), agent_of(stage, node)
    return _first(b"supervisor", [child for parent in (agent, init) if parent for child in parent.children()])


def _first(word: bytes, processes: list[Running]) -> Running | None:
    return next((each for each in processes if word in Path(f"/proc/{each.pid}/cmdline").read_bytes()), None)


def victims(stage: Stage, node: str) -> dict[str, tuple[Callable[[], Running | None], Path]]:
    """The parts that can be killed: how to find the process, and its log."""
    logs = stage.layout.logs
    machine = logs / f"machine-{node}.log"
    return {
        "apiserver": (lambda: stage.part("apiserver"), logs / "apiserver.log"),
        "controllers": (lambda: stage.part("controllers"), logs / "controllers.log"),
        "agent": (lambda: agent_of(stage, node), machine),
        "machine": (lambda: stage.machine(node), machine),
        "supervisor": (lambda: supervisor_of(stage, node), machine),
    }


async def move_about(stage: Stage, random: Random) -> None:
    """The load: pods are deleted and nodes cordoned, all the time."""
    while True:
        name = f"node-{random.randint(1, NODES)}"
        try:
            pods = (await stage.client.list(Pod, "default")).items
            if pods:
                pod = random.choice(pods)
                await stage.client.delete(Pod, pod.name, pod.namespace, uid=pod.uid)
            await stage.client.patch(Node, name, {"spec": {"unschedulable": random.random() < 0.4 or None}})
        except KubeError:
            pass  # the API server is among the victims
        await asyncio.sleep(random.uniform(0.1, 1.0))


async def something_happens(stage: Stage) -> None:
    """Returns when a volume is being moved, or after two seconds: so that kills hit work rather than rest."""
    before = None
    for _ in range(200):
        try:
            records = (await stage.client.list(VolumeAttachment)).items
        except KubeError:
            records = None
        now = records and [(each.name, each.metadata.resource_version) for each in records]
        if before is not None and now is not None and now != before:
            return
        before = now
        await asyncio.sleep(0.01)


async def all_ready(stage: Stage) -> bool:
    found = await stage.client.get(StatefulSet, "recorder", "default")
    return found.status.ready_replicas == REPLICAS


def records_are_whole(path: Path) -> bool:
    """Numbered from 1 without a gap; checksums are verified by the pods themselves."""
    numbers = [int(line.split()[0]) for line in path.read_text().splitlines()]
    return numbers == list(range(1, len(numbers) + 1)) and len(numbers) > 0


def test_kill_9_of_every_part_under_load_loses_nothing(
    data_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seed = int(os.environ.get("MOORING_SEED", "0")) or int.from_bytes(os.urandom(4))
    hits: Counter[tuple[str, str]] = Counter()

    async def story() -> None:
        random, stage = Random(seed), Stage(data_dir)
        try:
            await stage.up("--nodes", str(NODES), "--port", "0", "--node-monitor-grace-period", "8")
            await stage.until("all nodes are Ready", lambda: stage.ready_nodes(NODES))
            await stage.apply(examples() / "statefulset.yaml")
            scaled = {"spec": {"replicas": REPLICAS}}
            await stage.client.patch(StatefulSet, "recorder", scaled, "default")
            await play(stage, random)
        finally:
            status, answer = await stage.down()
        assert status == 0, answer
        assert stage.leftovers() == []

    async def play(stage: Stage, random: Random) -> None:
        load = asyncio.create_task(move_about(stage, random))
        for number in range(ROUNDS):
            await asyncio.sleep(random.uniform(0.2, 0.8))
            await something_happens(stage)
            await asyncio.sleep(random.uniform(0, 0.03))
            parts = victims(stage, f"node-{random.randint(1, NODES)}")
            part = list(parts)[number % len(parts)]
            find, log = parts[part]
            victim = find()
            if victim is not None:
                asked = part in ("apiserver", "controllers", "agent")
                doing = await awaited(victim, log) if asked else []
                victim.send(signal.SIGKILL)
                hits[part, "; ".join(doing) or ("idle" if asked else "(not asked)")] += 1
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        await stage.until("the API server is back", lambda: stage.ready_nodes(0))
        for number in range(1, NODES + 1):
            await stage.cordon(f"node-{number}", False)
        await stage.until("all pods are ready again", lambda: all_ready(stage), patience=120)
        await check(stage)

    async def check(stage: Stage) -> None:
        assert all(len(nodes) <= 1 for nodes in stage.array.attachments().values())
        # A machine that is back sooner than it is missed has pods that still count as ready, and are not
        # there yet.
        files = await stage.until(
            "all records are mounted where their pods are", lambda: records(stage), patience=120
        )
        assert sorted(files) == [f"recorder-{ordinal}" for ordinal in range(REPLICAS)]
        for pod, path in files.items():
            assert records_are_whole(path), f"{pod} lost records"
        for log in stage.layout.nodes.glob("*/pods/*/logs/*.log"):
            assert "damaged" not in log.read_text(), f"{log} tells of a damaged record"

    async def records(stage: Stage) -> dict[str, Path]:
        """Each pod's file, once all of them are there."""
        found: dict[str, Path] = {}
        for pod in (await stage.client.list(Pod, "default")).items:
            name = next(
                v.persistent_volume_claim.claim_name for v in pod.spec.volumes if v.persistent_volume_claim
            )
            claim = await stage.client.get(PersistentVolumeClaim, name, "default")
            mount = stage.inside(pod.spec.node_name, claim.spec.volume_name)
            if mount is None or not (mount / "records").exists():
                return {}
            found[pod.name] = mount / "records"
        return found

    asyncio.run(story())
    with capsys.disabled():
        print(f"\n  seed {seed}; killed:")
        for (part, doing), count in sorted(hits.items()):
            print(f"    {part:12} {count:3}x  awaiting: {doing[:150]}")
    assert {part for part, _ in hits} >= {"apiserver", "controllers", "agent", "machine"}
