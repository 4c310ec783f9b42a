"""Records what a controller really does in hazard H4c: it is killed after an attach and before the node's
status says so, and the pod goes to another node.

`python -m tests.real.hazards.record` plays it twice on the real API server, with kube-controller-manager's
attach/detach controller and with Mooring's, and stores times and states in
`src/mooring/cluster/demo/recorded.json`. The demo's picture draws them beneath its own story
(`mooring.cluster.demo.recorded` says what the file holds). It needs the programs of `make assets`; a minute.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "doubles"))

from tests.real.hazards.control_plane import MOORING, UPSTREAM, ControllerProgram, Running, stage
from tests.real.hazards.stage import HazardCluster, unique_name
from tests.real.server import assets, real_server

from mooring.kube.objects import Node

OUT = Path(__file__).parents[3] / "src/mooring/cluster/demo/recorded.json"
VOLUME, OLD, NEW = "recorder", "node-1", "node-2"
SAMPLE_S = 0.05
BEFORE_S, SETTLED_S = 2.0, 8.0


class Recorder:
    """What was reported and what was true of the volume on each node, as times at which it changed."""

    def __init__(self, played: HazardCluster) -> None:
        self._played = played
        self._start = played.elapsed()
        self.lanes: dict[str, dict[str, list[tuple[float, str]]]] = defaultdict(lambda: defaultdict(list))
        self.marks: list[dict[str, Any]] = []

    @property
    def now(self) -> float:
        return round(self._played.elapsed() - self._start, 2)

    def mark(self, label: str, *, crash: bool = False) -> None:
        """Something that was done now; `crash`: to the controller."""
        self.marks.append({"at": self.now, "label": label, "crash": crash})

    async def run(self) -> None:
        """Looks until cancelled."""
        while True:
            records = await self._played.attachments(VOLUME)
            for node in (await self._played.client.list(Node)).items:
                mine = next((each for each in records if each.spec.node_name == node.name), None)
                state = ""
                if mine is not None:
                    in_use = unique_name(VOLUME) in node.status.volumes_in_use
                    held = "attached, in use" if in_use else "attached"
                    state = "detaching" if mine.deleting else held if mine.status.attached else "attaching"
                self._note(node.name, "reported", state)
                truth = self._played.truth
                mounted = node.name in truth.mounted[VOLUME]
                attached = "attached" if node.name in truth.attached[VOLUME] else ""
                self._note(node.name, "true", "mounted" if mounted else attached)
            await asyncio.sleep(SAMPLE_S)

    def _note(self, node: str, kind: str, state: str) -> None:
        changes = self.lanes[node][kind]
        if (changes[-1][1] if changes else "") != state:
            changes.append((self.now, state))


async def play(played: HazardCluster, running: Running) -> Recorder:
    """The schedule. It knows no controller."""
    for node in (OLD, NEW):
        await played.node(node)
    await played.volume(VOLUME)
    seen = Recorder(played)
    watching = asyncio.create_task(seen.run())
    await asyncio.sleep(1)
    played.proxy.refused.append(re.compile(f"/nodes/{OLD}/status$"))
    seen.mark(f"a pod on {OLD}")
    await played.pod("recorder-0", OLD, VOLUME)
    await played.until("it is attached", lambda: played.attached_to(VOLUME, OLD))
    await asyncio.sleep(BEFORE_S)
    seen.mark("kill -9: attached, not yet reported", crash=True)
    await running.kill()
    played.proxy.refused.clear()
    await played.force_delete("recorder-0")
    seen.mark(f"the pod goes to {NEW}")
    await played.pod("recorder-0", NEW, VOLUME)
    await asyncio.sleep(BEFORE_S)
    seen.mark("the controller starts again")
    await running.start()
    await played.kubelets[NEW].mount(VOLUME)
    await asyncio.sleep(SETTLED_S)
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    return seen


async def record(programs: Path, controller: ControllerProgram) -> dict[str, Any]:
    """What the controller did, as the file has it."""
    with tempfile.TemporaryDirectory() as folder, real_server(programs, Path(folder)) as server:
        async with stage(server, programs, Path(folder), controller) as (played, (running,)):
            seen = await play(played, running)
            lanes = {node: dict(kinds) for node, kinds in sorted(seen.lanes.items())}
            harm = played.truth.harm(VOLUME)
            return {"harm": harm, "end": seen.now, "marks": seen.marks, "lanes": lanes}


def version(programs: Path) -> str:
    """Of kube-controller-manager, as in 1.36.3."""
    command = [programs / "kube-controller-manager", "--version"]
    return subprocess.check_output(command, text=True).split()[-1].removeprefix("v")


async def main() -> None:
    programs = assets()
    if programs is None:
        raise SystemExit("needs etcd, kube-apiserver and kube-controller-manager: run `make assets`")
    runs = {
        f"kube-controller-manager {version(programs)}": await record(programs, UPSTREAM),
        "mooring": await record(programs, MOORING),
    }
    OUT.write_text(json.dumps(runs, indent=1) + "\n")
    for name, run in runs.items():
        print(f"{name}: {run['harm'] or 'no harm'}")


if __name__ == "__main__":
    logging.getLogger("asyncio").setLevel(logging.CRITICAL)  # watches that the controllers leave behind
    asyncio.run(main())
