"""The real kubectl against the embedded server: what a user types, and what a user reads.

Runs with the `kubectl` that MOORING_KUBECTL names, the one on PATH, or the one of `make assets`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from tests.real.server import assets

from mooring.apiserver import ADMIN, Request
from mooring.apiserver.process import Running, serve

BUILT = shutil.which("kubectl", path=assets())
KUBECTL = os.environ.get("MOORING_KUBECTL") or shutil.which("kubectl") or BUILT
pytestmark = pytest.mark.skipif(
    not KUBECTL, reason="needs kubectl: put it on PATH, or name it in MOORING_KUBECTL"
)

MANIFESTS = """
apiVersion: v1
kind: Node
metadata: {name: n1}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast, annotations: {storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: disk.example.com
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec:
  storageClassName: fast
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web}
spec:
  serviceName: web
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: "nginx:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: p1, labels: {app: lone}}
spec:
  containers: [{name: c, image: "busybox:1"}]
"""
RUNNING = {
    "phase": "Running",
    "podIP": "10.0.0.1",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [
        {
            "name": "c",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {}},
            "image": "x",
            "imageID": "x",
        }
    ],
}
PODS = "/api/v1/namespaces/default/pods"
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}


class Kubectl:
    """Runs kubectl against one server, with a home of its own (kubectl caches discovery there)."""

    def __init__(self, running: Running, home: Path) -> None:
        self.running = running
        self.home = home
        self.manifest = home / "all.yaml"
        self.manifest.write_text(MANIFESTS)

    def start(self, *arguments: str, kubeconfig: Path | None = None) -> Awaitable[asyncio.subprocess.Process]:
        config = str(kubeconfig or self.running.kubeconfig)
        environment = {"HOME": str(self.home), "KUBECONFIG": config, "PATH": os.environ.get("PATH", "")}
        environment |= {"EDITOR": str(self.home / "editor"), "TMPDIR": str(self.home)}
        pipe, merged = asyncio.subprocess.PIPE, asyncio.subprocess.STDOUT
        return asyncio.create_subprocess_exec(
            str(KUBECTL),
            *arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=pipe,
            stderr=merged,
        )

    async def run(self, *arguments: str, fails: bool = False, kubeconfig: Path | None = None) -> str:
        """What kubectl prints; it must succeed, or fail if that is expected."""
        process = await self.start(*arguments, kubeconfig=kubeconfig)
        output = (await process.communicate())[0].decode()
        assert (process.returncode != 0) == fails, (
            f"kubectl {' '.join(arguments)}: exit {process.returncode}\n{output}"
        )
        return output

    async def __call__(self, line: str, fails: bool = False) -> str:
        return await self.run(*line.split(), fails=fails)

    def edits_by(self, script: str) -> None:
        """What `kubectl edit` will do: a shell script that changes the file $1."""
        editor = self.home / "editor"
        editor.write_text(f"#!/bin/sh\n{script}\n")
        editor.chmod(0o700)

    async def call(self, method: str, path: str, body: Any, headers: dict[str, str] | None = None) -> None:
        """A request as a controller or a node would send it."""
        server = self.running.server
        answer = await server.handle(
            Request(method, path, (), headers or {}, json.dumps(body).encode(), ADMIN)
        )
        assert answer.status < 300, answer.body

    async def run_pod(self, name: str = "p1") -> None:
        """Bind a pod and report it running."""
        await self.call("POST", f"{PODS}/{name}/binding", {"target": {"name": "n1"}})
        await self.call("PATCH", f"{PODS}/{name}/status", {"status": RUNNING}, STRATEGIC)


@pytest.fixture
async def kubectl(tmp_path: Path) -> Any:
    running = await serve(data_dir=tmp_path / "data")
    yield Kubectl(running, tmp_path)
    await running.close()


@pytest.fixture
async def kube(tmp_path: Path) -> Any:
    """kubectl, with the manifests applied."""
    running = await serve(data_dir=tmp_path / "data")
    kubectl = Kubectl(running, tmp_path)
    await kubectl(f"apply -f {kubectl.manifest}")
    yield kubectl
    await running.close()


def words(text: str) -> list[list[str]]:
    """The lines of a table, split into words."""
    return [line.split() for line in text.strip().splitlines()]


async def test_a_manifest_is_applied_and_applied_again(kubectl: Kubectl) -> None:
    first = await kubectl(f"apply -f {kubectl.manifest}")
    assert first.split()[1::2] == ["created"] * 5
    second = await kubectl(f"apply -f {kubectl.manifest}")
    assert second.split()[1::2] == ["unchanged"] * 5
    kubectl.manifest.write_text(MANIFESTS.replace("nginx:1", "nginx:2"))
    assert "statefulset.apps/web configured" in await kubectl(f"apply -f {kubectl.manifest}")
    assert "nginx:2" in await kubectl("get sts web -o wide")
    assert await kubectl(f"diff -f {kubectl.manifest}") == ""


async def test_a_manifest_is_applied_by_the_server(kubectl: Kubectl) -> None:
    await kubectl(f"apply --server-side -f {kubectl.manifest}")
    kubectl.manifest.write_text(MANIFESTS.replace("nginx:1", "nginx:2"))
    await kubectl(f"apply --server-side -f {kubectl.manifest}")
    assert "nginx:2" in await kubectl("get sts web -o wide")
    other = await kubectl(f"apply --server-side --field-manager=other -f {kubectl.manifest}")
    assert "serverside-applied" in other
    kubectl.manifest.write_text(MANIFESTS)
    refusal = await kubectl(f"apply --server-side --field-manager=other -f {kubectl.manifest}", fails=True)
    assert 'conflict with "kubectl"' in refusal
    await kubectl(f"apply --server-side --field-manager=other --force-conflicts -f {kubectl.manifest}")
    await kubectl(f"apply -f {kubectl.manifest}")
    await kubectl(f"apply --server-side --force-conflicts -f {kubectl.manifest}")


async def test_get_shows_the_columns_that_people_know(kube: Kubectl) -> None:
    await kube.run_pod()
    assert words(await kube("get pods"))[0] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert words(await kube("get pods"))[1][:4] == ["p1", "1/1", "Running", "0"]
    wide = words(await kube("get pods -o wide"))
    assert wide[1][5:] == ["10.0.0.1", "n1", "<none>", "<none>"]
    assert words(await kube("get pvc"))[1][:2] == ["data", "Pending"]
    assert "fast (default)" in await kube("get sc")
    assert words(await kube("get sts"))[1][:2] == ["web", "0/1"]
    assert words(await kube("get nodes"))[1][:2] == ["n1", "Unknown"]
    every = await kube("get all,pvc,sc,nodes -A")
    assert {"pod/p1", "statefulset.apps/web", "persistentvolumeclaim/data", "node/n1"} <= set(every.split())
    assert (await kube("get pods -o name")).split() == ["pod/p1"]
    assert (await kube("get pods -o jsonpath={.items[*].spec.nodeName}")) == "n1"
    custom = words(await kube("get pods -o custom-columns=WHO:.metadata.name,WHERE:.spec.nodeName"))
    assert custom == [["WHO", "WHERE"], ["p1", "n1"]]
    assert "phase: Running" in await kube("get pod p1 -o yaml")
    assert json.loads(await kube("get pods -o json"))["items"][0]["kind"] == "Pod"
    assert "No resources found" in await kube("get pods -l app=other")
    assert words(await kube("get pods --field-selector=spec.nodeName=n1"))[1][0] == "p1"


async def test_get_watch_follows(kube: Kubectl) -> None:
    watching = await kube.start("get", "pods", "-w", "-o", "wide")
    assert watching.stdout is not None
    lines = [await watching.stdout.readline() for _ in range(2)]
    await kube.run_pod()
    lines += [await watching.stdout.readline() for _ in range(2)]
    await kube("delete pod p1 --wait=false")
    lines.append(await watching.stdout.readline())
    watching.kill()
    await watching.communicate()
    states = [line.decode().split()[2] for line in lines]
    assert states == ["STATUS", "Pending", "Pending", "Running", "Terminating"]


async def test_labels_annotations_and_patches_of_three_types(kube: Kubectl) -> None:
    await kube("label pod p1 a=b")
    await kube("annotate pod p1 x=y")
    for kind, patch in (
        ("strategic", '{"metadata":{"labels":{"s":"1"}}}'),
        ("merge", '{"metadata":{"labels":{"m":"1"}}}'),
        ("json", '[{"op":"add","path":"/metadata/labels/j","value":"1"}]'),
    ):
        await kube.run("patch", "pod", "p1", f"--type={kind}", "-p", patch)
    metadata = json.loads(await kube("get pod p1 -o json"))["metadata"]
    assert metadata["labels"] == {"app": "lone", "a": "b", "s": "1", "m": "1", "j": "1"}
    assert metadata["annotations"]["x"] == "y"
    assert "patched (no change)" in await kube.run(
        "patch", "pod", "p1", "-p", '{"metadata":{"labels":{"s":"1"}}}'
    )
    refusal = await kube.run("patch", "pod", "p1", "-p", '{"spec":{"nodeName":"x"}}', fails=True)
    assert "pod updates may not change fields other than" in refusal


async def test_an_editor_changes_an_object(kube: Kubectl) -> None:
    kube.edits_by('sed -i "s/replicas: 1/replicas: 4/" "$1"')
    assert "statefulset.apps/web edited" in await kube("edit sts web")
    assert words(await kube("get sts web"))[1][1] == "0/4"
    assert "no changes made" in await kube("edit sts web")
    kube.edits_by('sed -i "s/serviceName: web/serviceName: other/" "$1"')
    assert 'statefulsets.apps "web" is invalid' in await kube("edit sts web", fails=True)
    kept = [copy.read_text() for copy in kube.home.glob("kubectl-edit-*")]
    assert any("updates to statefulset spec for fields other than" in copy for copy in kept)
    kube.edits_by('sed -i "s/phase: .*/phase: Failed/" "$1"')
    await kube("edit pod p1 --subresource=status")
    assert words(await kube("get pod p1"))[1][2] == "Failed"


async def test_describe_tells_the_story(kube: Kubectl) -> None:
    await kube.run_pod()
    uid = await kube("get pod p1 -o jsonpath={.metadata.uid}")
    about = {"kind": "Pod", "name": "p1", "namespace": "default", "uid": uid}
    event = {
        "metadata": {"name": "e"},
        "involvedObject": about,
        "reason": "FailedMount",
        "message": "no disk",
        "type": "Warning",
    }
    await kube.call("POST", "/api/v1/namespaces/default/events", event)
    description = await kube("describe pod p1")
    assert re.search(r"Warning +FailedMount .* no disk", description)
    assert "node.kubernetes.io/unreachable:NoExecute op=Exists for 300s" in description
    assert "FailedMount" in await kube("get events")
    assert "FailedMount" in await kube("events")
    for thing in ("node n1", "pvc data", "sc fast", "sts web", "ns default"):
        await kube(f"describe {thing}")


async def test_a_node_is_tainted_cordoned_and_drained(kube: Kubectl) -> None:
    await kube("taint node n1 k=v:NoSchedule")
    await kube("cordon n1")
    assert words(await kube("get nodes"))[1][1] == "Unknown,SchedulingDisabled"
    await kube.run_pod()
    budget = {
        "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "lone"}}},
    }
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    await kube.call("POST", budgets, budget)
    # As its controller writes it. Before that, kubectl asks again every 10 s, whatever its timeout.
    seen = {"observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1}
    await kube.call("PATCH", f"{budgets}/b/status", {"status": {**seen, "expectedPods": 1}}, STRATEGIC)
    refusal = await kube("drain n1 --force --timeout=1s", fails=True)
    assert "violate the pod's disruption budget" in refusal
    await kube("delete pdb b")
    draining = await kube.start("drain", "n1", "--force")
    while "deletionTimestamp" not in await kube("get pod p1 -o jsonpath={.metadata}"):
        pass
    await kube.call("DELETE", f"{PODS}/p1", {"gracePeriodSeconds": 0})
    output = (await draining.communicate())[0].decode()
    assert "node/n1 drained" in output
    await kube("uncordon n1")
    await kube("taint node n1 k-")


async def test_wait_and_delete(kube: Kubectl) -> None:
    waiting = asyncio.create_task(kube("wait --for=condition=Ready pod/p1 --timeout=20s"))
    await kube.run_pod()
    assert "pod/p1 condition met" in await waiting
    deleting = asyncio.create_task(kube("delete pod p1"))
    gone = asyncio.create_task(kube("wait --for=delete pod/p1 --timeout=20s"))
    while "deletionTimestamp" not in await kube("get pod p1 -o jsonpath={.metadata}"):
        pass
    await kube.call("DELETE", f"{PODS}/p1", {"gracePeriodSeconds": 0})
    assert "deleted" in await deleting
    await gone
    assert "NotFound" in await kube("get pod p1", fails=True)
    await kube("delete sts web")
    await kube("delete sc,nodes --all")


@pytest.mark.parametrize(
    ("how", "seconds"),
    [("--grace-period=7", "7"), ("--now", "1"), ("--cascade=orphan", "30")],
)
async def test_a_pod_on_a_node_is_deleted_with_a_grace_period(kube: Kubectl, how: str, seconds: str) -> None:
    await kube.run_pod()
    await kube(f"delete pod p1 --wait=false {how}")
    assert await kube("get pod p1 -o jsonpath={.metadata.deletionGracePeriodSeconds}") == seconds
    assert "force deleted" in await kube("delete pod p1 --grace-period=0 --force")
    assert "NotFound" in await kube("get pod p1", fails=True)


async def test_what_is_deleted_may_leave_its_dependents(kube: Kubectl) -> None:
    await kube("delete sts web --cascade=orphan --wait=false")
    finalizers = await kube("get sts web -o jsonpath={.metadata.finalizers}")
    assert json.loads(finalizers) == ["orphan"]


async def test_scale_set_image_and_replace(kube: Kubectl) -> None:
    await kube("scale sts web --replicas=3")
    assert words(await kube("get sts"))[1][1] == "0/3"
    await kube("scale sts web --current-replicas=3 --replicas=2")
    await kube("set image sts/web c=nginx:3")
    assert "nginx:3" in await kube("get sts web -o wide")
    assert "replaced" in await kube(f"replace -f {kube.manifest}")
    assert "created" in await kube("run p2 --image=busybox:1 --restart=Never")


async def test_debug_adds_an_ephemeral_container(kube: Kubectl) -> None:
    await kube("debug p1 --image=busybox:1 --target=c -c look -- true")
    pod = json.loads(await kube("get pod p1 -o json"))
    (late,) = pod["spec"]["ephemeralContainers"]
    assert (late["name"], late["targetContainerName"], late["command"]) == ("look", "c", ["true"])


async def test_create_sends_protobuf_for_some_kinds(kube: Kubectl) -> None:
    await kube("create namespace team")
    await kube("create configmap c --from-literal=a=b -n team")
    await kube("create secret generic s --from-literal=a=b -n team")
    await kube("create serviceaccount robot -n team")
    await kube("create priorityclass high --value=100")
    assert (await kube("get secret s -n team -o jsonpath={.data.a}")) == "Yg=="
    assert "AlreadyExists" in await kube("create namespace team", fails=True)
    assert "created" in await kube("create deployment d --image=x")
    await kube("delete ns team --wait=false")
    assert words(await kube("get ns team"))[1][1] == "Terminating"


async def test_what_the_server_offers_can_be_asked(kube: Kubectl) -> None:
    resources = await kube("api-resources")
    assert re.search(r"volumeattachments +storage.k8s.io/v1 +false +VolumeAttachment", resources)
    assert "storage.k8s.io/v1" in await kube("api-versions")
    assert "KIND:       Pod" in await kube("explain pod")
    assert "labels" in await kube("explain pvc.metadata")
    assert (await kube("auth can-i delete pods")).strip() == "yes"
    assert "Server Version" in await kube("version")
    assert await kube("get --raw /readyz") == "ok"
    assert "doesn't have a resource type" in await kube("get nosuch", fails=True)


async def test_a_wrong_manifest_is_refused_in_words(kube: Kubectl) -> None:
    bad = kube.home / "bad.yaml"
    for text, words in (
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: []}\n",
            "spec.containers: Required value",
        ),
        ("apiVersion: v1\nkind: Nosuch\nmetadata: {name: x}\n", 'no matches for kind "Nosuch"'),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: UPPER}\nspec: {containers: [{name: c, image: x}]}\n",
            "RFC 1123",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {terminationGracePeriodSeconds: soon}\n",
            "cannot unmarshal string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64",
        ),
    ):
        bad.write_text(text)
        assert words in await kube(f"create -f {bad}", fails=True)
