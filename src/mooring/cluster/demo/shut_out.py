"""A node that nothing can switch off: its storage shuts it out, and a person decides about its pod.

The pod of this story is a second StatefulSet's, whose volume is a LUN of a real iSCSI server. Every node
reaches that server, so that a lost one could write on.
"""

from __future__ import annotations

import json
from typing import Any

from mooring.cluster import control
from mooring.cluster.demo.fence import became, fenced, ladder, said
from mooring.cluster.demo.scene import CONTAINER, POD, Demo, ready
from mooring.cluster.processes import mooring
from mooring.cluster.stage import run
from mooring.cluster.storage.shown import SAID
from mooring.kube.objects import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    VolumeAttachment,
)
from mooring.kube.objects.fencing import FencePolicy, NodeFence
from mooring.volumes.node_fences import Phase
from mooring.volumes.statements import evidence_of

LEDGER, LEDGER_POD, LUN = "ledger", "ledger-0", "ledger-lun"
SERVER = "ledger"
LADDER = [{"mechanism": "bmc", "retries": 0}, {"mechanism": f"iscsi-{SERVER}"}]


async def shut_out(demo: Demo) -> None:
    """f. The BMC does not answer, and nothing else has the machine's power."""
    demo.head("f. The BMC is silent, and nothing else can switch the machine off: its storage shuts it out")
    pod = await _ledger(demo)
    node, since = pod.spec.node_name, demo.watch.now
    await ladder(demo, LADDER)
    await said(demo, "machine", "bmc", node, "--misbehave", "silent", "--device", "bmc")
    demo.mark(f"{node} is cut off")
    await said(demo, "node", "cut", node, "--from", "api")
    await demo.writes(pod, more=1)
    fence = await fenced(demo, node)
    tried = [each.mechanism for each in fence.status.attempts]
    demo.check(
        f"tried in turn: {', '.join(tried)}; {fence.status.attempts[-1].message}",
        fence.status.attempts[-1].scope == "Storage",
    )
    confirmed = await demo.last(pod, "wrote")
    await demo.timed("volume released by its storage", since, lambda: _released(demo, node))
    await _pod_waits(demo, pod)

    demo.say("a person decides that a second process does no harm here: storageReleasesPods")
    await _releases_pods(demo, True)
    since = demo.watch.now
    await demo.timed("pod moved, as its policy allows", since, lambda: _moved(demo, pod))
    moved = await _moved(demo, pod)
    assert moved is not None
    await demo.verified(moved, confirmed, "what the old process had confirmed")
    demo.check(
        f"{node} has power, its old process runs, and confirms nothing more",
        demo.stage.has_power(node) and await demo.last(pod, "wrote") == confirmed,
    )
    await _comes_back(demo, node, fence)


async def _pod_waits(demo: Demo, pod: Pod) -> None:
    """The volume may move; the pod's process may run still."""
    config = str(demo.stage.layout.kubeconfig)
    _, why = await run(mooring("why", f"pod/{LEDGER_POD}", "--kubeconfig", config))
    demo.say(f"mooring why pod/{LEDGER_POD}:")
    for line in why.splitlines():
        demo.say(f"  {line}")
    still = await demo.stage.client.get(Pod, LEDGER_POD, "default")
    demo.check("the StatefulSet's pod stays: its process may run still", still.uid == pod.uid)


async def _comes_back(demo: Demo, node: str, fence: NodeFence) -> None:
    """Only another boot is let in again: what the old one had not written must never arrive."""
    stage = demo.stage
    await said(demo, "machine", "bmc", node, "--misbehave", "none", "--device", "bmc")
    await said(demo, "node", "heal", node)
    await stage.until("the node answers", lambda: ready(demo.watch.node(node)) == "True")
    demo.check("its network is back, in the same boot: it stays shut out", not await _may_log_in(demo, node))
    since = demo.watch.now
    demo.mark(f"{node} boots anew")
    await said(demo, "node", "kill", node)
    await said(demo, "node", "start", node)
    await demo.timed("let in after a new boot", since, lambda: became(demo, fence, Phase.UNFENCED))
    demo.check("the server lets the new boot in", await _may_log_in(demo, node))
    await _releases_pods(demo, False)


# --- the ledger


async def _ledger(demo: Demo) -> Pod:
    """The server, its LUN as a volume, and the pod that writes there; on another node than the recorder."""
    await said(demo, "storage", "iscsi", SERVER, "--size", "64Mi")
    stage, client = demo.stage, demo.stage.client
    server = await _server(demo)
    for node in (await client.list(Node)).items:
        status, answer = await stage.run_in(node.name, server["commands"]["prepare"])
        demo.check(f"{node.name} reaches the server{f': {answer}' if status else ''}", status == 0)
    recorder = await stage.until("the recorder runs", demo.running)
    await stage.cordon(recorder.spec.node_name)
    await client.create(PersistentVolume, _volume(server))
    await client.create(PersistentVolumeClaim, _claim(), "default")
    await client.create(StatefulSet, _stateful_set(), "default")
    pod: Pod = await stage.until("the ledger runs", lambda: demo.running(LEDGER_POD))
    await stage.cordon(recorder.spec.node_name, False)
    await demo.writes(pod, more=1)
    demo.check(f"{LEDGER_POD} writes on {pod.spec.node_name}, to a LUN of {server['address']}", True)
    return pod


async def _server(demo: Demo) -> dict[str, Any]:
    found: list[dict[str, Any]] = json.loads(await control.say(demo.stage.layout.control, SAID, ""))
    return next(each for each in found if each["name"] == SERVER)


async def _may_log_in(demo: Demo, node: str) -> bool:
    """Whether the server names its target to the node."""
    server = await _server(demo)
    await demo.stage.run_in(node, server["commands"]["prepare"])
    asked = f"iscsiadm -m discovery -t st -p {server['address']} | grep {server['target']}"
    return (await demo.stage.run_in(node, asked))[0] == 0


async def _moved(demo: Demo, pod: Pod) -> Pod | None:
    return await demo.running(LEDGER_POD, not_uid=pod.uid)


async def _released(demo: Demo, node: str) -> bool:
    """Whether the volume may go to another pod elsewhere: its attachment has the fence's evidence."""
    records = (await demo.stage.client.list(VolumeAttachment)).items
    mine = [each for each in records if each.spec.source.persistent_volume_name == LUN]
    return any(each.spec.node_name == node and evidence_of(each) is not None for each in mine)


async def _releases_pods(demo: Demo, allowed: bool) -> None:
    body = {"spec": {"storageReleasesPods": allowed}}
    await demo.stage.client.patch(FencePolicy, "default", body)


def _volume(server: dict[str, Any]) -> dict[str, Any]:
    iscsi = {"targetPortal": server["address"], "iqn": server["target"], "lun": 1}
    spec = {**_ONE_WRITER, "capacity": {"storage": "64Mi"}, "iscsi": iscsi}
    return {"metadata": {"name": LUN}, "spec": spec}


def _claim() -> dict[str, Any]:
    spec = {**_ONE_WRITER, "volumeName": LUN, "resources": {"requests": {"storage": "64Mi"}}}
    return {"metadata": {"name": f"data-{LEDGER_POD}"}, "spec": spec}


def _stateful_set() -> dict[str, Any]:
    """It runs the recorder's script (of the ConfigMap `recorder`) on its claim, which is there already."""
    labels = {"app": LEDGER}
    container = {
        "name": CONTAINER,
        "image": "busybox:1.37",
        "command": ["/bin/sh", "/script/record.sh"],
        "volumeMounts": [
            {"name": "data", "mountPath": "/data"},
            {"name": "script", "mountPath": "/script"},
        ],
    }
    script = {"name": "script", "configMap": {"name": POD.removesuffix("-0")}}
    pod = {"terminationGracePeriodSeconds": 5, "containers": [container], "volumes": [script]}
    claim = {**_ONE_WRITER, "resources": {"requests": {"storage": "64Mi"}}}
    return {
        "metadata": {"name": LEDGER},
        "spec": {
            "serviceName": LEDGER,
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
        },
    }


_ONE_WRITER = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
