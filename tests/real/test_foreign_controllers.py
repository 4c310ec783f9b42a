"""The real kube-scheduler and kube-controller-manager do their jobs on the embedded server, one test for
each."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from tests.real.foreign import PROGRAMS, SILENT, WORKER, Obj, ProcessApi, foreign_cluster, until

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

VOLUMES = "/api/v1/persistentvolumes"
ATTACHMENTS = "/apis/storage.k8s.io/v1/volumeattachments"
DRIVER = "disk.example.com"
MODES = ["ReadWriteOnce"]
FOREGROUND, BACKGROUND, ORPHAN = (
    {"propagationPolicy": each} for each in ("Foreground", "Background", "Orphan")
)
# What a server says that does not have what is asked for, and what a client says when it cannot follow a
# kind.
COMPLAINT = re.compile(
    r"could not find the requested resource|Failed to watch|failed to list|unable to decode|panic"
)


@pytest.fixture(scope="module")
def folder(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the logs are."""
    for name in PROGRAMS:
        if not (programs / name).exists():
            pytest.skip(f"needs {name}: run `make assets`")
    return tmp_path_factory.mktemp("foreign")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def cluster(programs: Path, folder: Path) -> AsyncIterator[ProcessApi]:
    async with foreign_cluster(programs, folder) as api:
        for name in (WORKER, SILENT):
            drivers = {"spec": {"drivers": [{"name": DRIVER, "nodeID": name}]}}
            await api.create("/apis/storage.k8s.io/v1/csinodes", {"metadata": {"name": name}, **drivers})
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def api(cluster: ProcessApi, request: pytest.FixtureRequest) -> ProcessApi:
    """The cluster, with a namespace of the test's own."""
    name = re.sub(r"[^a-z]+", "-", request.node.name)[-60:].strip("-")
    await cluster.create("/api/v1/namespaces", {"metadata": {"name": name}})
    return cluster.within(name)


def pod_spec(**more: Any) -> Obj:
    return {"containers": [{"name": "c", "image": "busybox:1"}], **more}


def workload(name: str, **spec: Any) -> Obj:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": pod_spec()}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def claim(storage_class: str) -> Obj:
    return {
        "accessModes": MODES,
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": storage_class,
    }


def volume(name: str, storage_class: str, size: str = "1Gi", **source: Any) -> Obj:
    spec = {"capacity": {"storage": size}, "accessModes": MODES, "storageClassName": storage_class}
    return {"metadata": {"name": name}, "spec": spec | (source or {"hostPath": {"path": f"/nowhere/{name}"}})}


def pod_with_claim(name: str, claim_name: str) -> Obj:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}]
    return {"metadata": {"name": name}, "spec": pod_spec(volumes=volumes)}


async def bound(api: ProcessApi, name: str, storage_class: str, **source: Any) -> None:
    """A claim and a volume of that name, bound."""
    await api.create(VOLUMES, volume(name, storage_class, **source))
    await status(api, f"{VOLUMES}/{name}", phase="Available")
    claims = api.path("persistentvolumeclaims")
    await api.create(claims, {"metadata": {"name": name}, "spec": claim(storage_class)})
    await status(api, f"{claims}/{name}", phase="Bound")


async def status(api: ProcessApi, path: str, **wanted: Any) -> Obj:
    """Wait until the fields of an object's status are as wanted; the object."""

    async def as_wanted() -> Obj | None:
        found = await api.get(path)
        return found if wanted.items() <= found.get("status", {}).items() else None

    return await until(f"{path} has {wanted}", as_wanted)


async def test_statefulset(api: ProcessApi) -> None:
    """Pods are made in order, each with a claim of its own, and scheduled; the status is counted."""
    for name in ("pv-0", "pv-1"):
        await api.create(VOLUMES, volume(name, "stateful"))
    sets, claims = api.path("statefulsets", "apps/v1"), api.path("persistentvolumeclaims")
    templates = [{"metadata": {"name": "data"}, "spec": claim("stateful")}]
    await api.create(sets, workload("web", replicas=2, serviceName="web", volumeClaimTemplates=templates))
    await status(api, f"{sets}/web", readyReplicas=2)
    assert await api.names(api.path("pods")) == {"web-0", "web-1"}
    assert {each["spec"]["volumeName"] for each in await api.items(claims)} == {"pv-0", "pv-1"}
    await api.merge(f"{sets}/web/scale", {"spec": {"replicas": 1}})
    await until("web-1 is gone", lambda: api.gone(f"{api.path('pods')}/web-1"))
    assert await api.names(claims) == {"data-web-0", "data-web-1"}


async def test_deployment_and_replicaset(api: ProcessApi) -> None:
    """A Deployment makes a ReplicaSet, which makes pods; another image goes through a second ReplicaSet."""
    deployments, sets = api.path("deployments", "apps/v1"), api.path("replicasets", "apps/v1")
    await api.create(deployments, workload("web", replicas=2))
    await status(api, f"{deployments}/web", availableReplicas=2, observedGeneration=1)
    (first,) = await api.names(sets)
    container = {"name": "c", "image": "busybox:2"}
    await api.merge(f"{deployments}/web", {"spec": {"template": {"spec": {"containers": [container]}}}})
    await status(
        api, f"{deployments}/web", availableReplicas=2, updatedReplicas=2, replicas=2, observedGeneration=2
    )
    await status(api, f"{sets}/{first}", replicas=0)
    (second,) = await api.names(sets) - {first}

    async def only_new_pods() -> bool:
        owners = [pod["metadata"]["ownerReferences"][0]["name"] for pod in await api.items(api.path("pods"))]
        return owners == [second, second]

    await until("all pods are of the second ReplicaSet", only_new_pods)


async def test_daemonset(api: ProcessApi) -> None:
    """A pod on each node that is selected, by affinity to the node's name."""
    sets = api.path("daemonsets", "apps/v1")
    body = workload("each")
    body["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": WORKER}
    await api.create(sets, body)
    await status(api, f"{sets}/each", desiredNumberScheduled=1, numberReady=1)
    (pod,) = await api.items(api.path("pods"))
    assert pod["spec"]["nodeName"] == WORKER


async def test_job(api: ProcessApi) -> None:
    jobs = api.path("jobs", "batch/v1")
    template = {"spec": pod_spec(restartPolicy="Never")}
    await api.create(jobs, {"metadata": {"name": "once"}, "spec": {"template": template}})
    done = await status(api, f"{jobs}/once", succeeded=1)
    assert "Complete" in {each["type"] for each in done["status"]["conditions"]}


async def test_endpoint_slices(api: ProcessApi) -> None:
    """A Service leads to the pods that it selects."""
    await api.create(
        api.path("services"),
        {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}},
    )
    await api.create(api.path("replicasets", "apps/v1"), workload("web"))

    async def leads() -> bool:
        slices = await api.items(api.path("endpointslices", "discovery.k8s.io/v1"))
        return [each["addresses"] for one in slices for each in one.get("endpoints") or ()] == [["10.0.0.9"]]

    await until("the Service leads to the pod", leads)


async def test_disruption_budget(api: ProcessApi) -> None:
    await api.create(api.path("replicasets", "apps/v1"), workload("web", replicas=2))
    budgets = api.path("poddisruptionbudgets", "policy/v1")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    await api.create(budgets, {"metadata": {"name": "web"}, "spec": spec})
    await status(api, f"{budgets}/web", disruptionsAllowed=1, currentHealthy=2)


async def test_service_account(api: ProcessApi) -> None:
    async def made() -> bool:
        return await api.names(api.path("serviceaccounts")) == {"default"}

    await until("the namespace has its service account", made)


async def test_resource_quota(api: ProcessApi) -> None:
    await api.create(api.path("pods"), {"metadata": {"name": "p"}, "spec": pod_spec()})
    quotas = api.path("resourcequotas")
    await api.create(quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}})
    await status(api, f"{quotas}/q", used={"pods": "1"}, hard={"pods": "3"})


async def test_ephemeral_volume(api: ProcessApi) -> None:
    """A pod's own volume gets a claim that belongs to the pod."""
    await api.create(VOLUMES, volume("short", "ephemeral"))
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": claim("ephemeral")}}}]
    pods, claims = api.path("pods"), api.path("persistentvolumeclaims")
    await api.create(pods, {"metadata": {"name": "p"}, "spec": pod_spec(volumes=volumes)})
    await status(api, f"{pods}/p", phase="Running")
    (owner,) = (await api.get(f"{claims}/p-scratch"))["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "p", True)
    await api.delete(f"{pods}/p")
    await until("the claim goes with its pod", lambda: api.gone(f"{claims}/p-scratch"))


async def test_volumes_are_bound_and_released(api: ProcessApi) -> None:
    """The smallest volume that fits is bound; when its claim goes, it is released."""
    claims = api.path("persistentvolumeclaims")
    for name, size in (("large", "9Gi"), ("small", "2Gi"), ("tiny", "1Mi")):
        await api.create(VOLUMES, volume(name, "fitting", size))
        await status(api, f"{VOLUMES}/{name}", phase="Available")
    await api.create(claims, {"metadata": {"name": "c"}, "spec": claim("fitting")})
    found = await status(api, f"{claims}/c", phase="Bound")
    assert (found["spec"]["volumeName"], found["status"]["capacity"]) == ("small", {"storage": "2Gi"})
    await status(api, f"{VOLUMES}/small", phase="Bound")
    await api.delete(f"{claims}/c")
    await status(api, f"{VOLUMES}/small", phase="Released")
    await status(api, f"{VOLUMES}/large", phase="Available")


async def test_a_claim_that_waits_for_its_consumer_is_bound_where_the_pod_is_scheduled(
    api: ProcessApi,
) -> None:
    waiting = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    await api.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "local"}, **waiting})
    for name in (WORKER, SILENT):
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
        affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
        await api.create(
            VOLUMES, volume(f"local-{name}", "local", local={"path": "/nowhere"}, nodeAffinity=affinity)
        )
    claims, pods = api.path("persistentvolumeclaims"), api.path("pods")
    await api.create(claims, {"metadata": {"name": "c"}, "spec": claim("local")})
    pod = pod_with_claim("p", "c")
    pod["spec"]["nodeSelector"] = {"kubernetes.io/hostname": WORKER}
    await api.create(pods, pod)
    await status(api, f"{pods}/p", phase="Running")
    assert (await api.get(f"{claims}/c"))["spec"]["volumeName"] == f"local-{WORKER}"


async def test_what_is_in_use_is_protected(api: ProcessApi) -> None:
    """A claim stays until its pod is gone, and a volume until its claim is gone."""
    await bound(api, "kept", "protected")
    pods, claim_path = api.path("pods"), f"{api.path('persistentvolumeclaims')}/kept"
    finalizer = {"metadata": {"finalizers": ["example.com/stay"]}}
    await api.create(pods, pod_with_claim("user", "kept"))
    await status(api, f"{pods}/user", phase="Running")
    await api.merge(f"{pods}/user", finalizer)
    await api.delete(claim_path)
    await api.delete(f"{VOLUMES}/kept")
    await api.delete(f"{pods}/user")
    assert (await api.get(claim_path))["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert (await api.get(f"{VOLUMES}/kept"))["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    await api.merge(f"{pods}/user", {"metadata": {"finalizers": None}})
    await until("the claim is gone", lambda: api.gone(claim_path))
    await until("the volume is gone", lambda: api.gone(f"{VOLUMES}/kept"))


async def attached(api: ProcessApi, name: str, **spec: Any) -> str:
    """The path of the VolumeAttachment of a disk that a pod uses, attached as the driver's attacher would do
    it."""
    await bound(api, name, name, csi={"driver": DRIVER, "volumeHandle": name})
    pod = pod_with_claim("user", name)
    await api.create(api.path("pods"), pod | {"spec": pod["spec"] | spec})
    (found,) = await until("an attachment is asked for", lambda: api.items(ATTACHMENTS))
    where = f"/api/v1/nodes/{found['spec']['nodeName']}"
    assert (found["spec"]["attacher"], found["spec"]["source"]) == (DRIVER, {"persistentVolumeName": name})
    assert not (await api.get(where))["status"].get("volumesAttached")
    path = f"{ATTACHMENTS}/{found['metadata']['name']}"
    await api.merge(path, {"metadata": {"finalizers": ["example.com/attacher"]}})
    await api.merge(f"{path}/status", {"status": {"attached": True}})
    await status(
        api, where, volumesAttached=[{"name": f"kubernetes.io/csi/{DRIVER}^{name}", "devicePath": ""}]
    )
    return path


async def detached(api: ProcessApi, path: str) -> None:
    """Wait until the detachment is asked for, and do it as the driver's attacher would do it."""
    where = f"/api/v1/nodes/{(await api.get(path))['spec']['nodeName']}"

    async def asked() -> bool:
        return "deletionTimestamp" in (await api.get(path))["metadata"]

    await until("the detachment is asked for", asked)
    await api.merge(path, {"metadata": {"finalizers": None}})
    await until("the attachment is gone", lambda: api.gone(path))

    async def untold() -> bool:
        return not (await api.get(where))["status"].get("volumesAttached")

    await until("the node's status does not tell of it any more", untold)


async def test_attach_and_detach(api: ProcessApi) -> None:
    """A VolumeAttachment asks for the attachment, the node's status tells it, and both end with the pod."""
    path = await attached(api, "attached")
    assert (await api.get(path))["spec"]["nodeName"] == WORKER
    await api.delete(f"{api.path('pods')}/user")
    await detached(api, path)


@pytest.mark.parametrize("options", [BACKGROUND, FOREGROUND], ids=["background", "foreground"])
async def test_what_belongs_to_a_deleted_object_is_deleted(api: ProcessApi, options: Obj) -> None:
    deployments, pods = api.path("deployments", "apps/v1"), api.path("pods")
    await api.create(deployments, workload("web", replicas=2))
    await status(api, f"{deployments}/web", availableReplicas=2)
    await api.delete(f"{deployments}/web", **options)

    async def nothing_left() -> bool:
        return not await api.items(api.path("replicasets", "apps/v1")) and not await api.items(pods)

    await until("ReplicaSet and pods are gone", nothing_left)
    await until("the Deployment is gone", lambda: api.gone(f"{deployments}/web"))


async def test_orphans_stay_and_belong_to_nobody(api: ProcessApi) -> None:
    sets, pods = api.path("replicasets", "apps/v1"), api.path("pods")
    await api.create(sets, workload("web", replicas=2))
    await status(api, f"{sets}/web", readyReplicas=2)
    await api.delete(f"{sets}/web", **ORPHAN)
    await until("the ReplicaSet is gone", lambda: api.gone(f"{sets}/web"))
    left = await api.items(pods)
    assert len(left) == 2
    assert not any(
        pod["metadata"].get("ownerReferences") or "deletionTimestamp" in pod["metadata"] for pod in left
    )


async def test_a_namespace_takes_all_with_it(api: ProcessApi) -> None:
    await bound(api, "doomed", "namespaced")
    await api.create(api.path("pods"), pod_with_claim("user", "doomed"))
    await api.create(api.path("configmaps"), {"metadata": {"name": "c"}})
    await api.create(api.path("horizontalpodautoscalers", "autoscaling/v2"), autoscaler())
    await api.delete(f"/api/v1/namespaces/{api.namespace}")
    await until("the namespace is gone", lambda: api.gone(f"/api/v1/namespaces/{api.namespace}"))
    for plural in ("pods", "configmaps", "persistentvolumeclaims"):
        assert not await api.items(api.path(plural))
    await status(api, f"{VOLUMES}/doomed", phase="Released")


def autoscaler() -> Obj:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    return {"metadata": {"name": "h"}, "spec": {"scaleTargetRef": target, "maxReplicas": 2}}


async def test_a_node_that_does_not_answer_is_unknown_and_tainted_and_loses_its_pods(api: ProcessApi) -> None:
    """The lease of this node was never renewed since the cluster began."""
    pods, silent = api.path("pods"), f"/api/v1/nodes/{SILENT}"
    at_once = [
        {
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 0,
            "key": "node.kubernetes.io/unreachable",
        }
    ]
    await api.create(
        pods, {"metadata": {"name": "p"}, "spec": pod_spec(nodeName=SILENT, tolerations=at_once)}
    )

    async def tainted() -> Obj | None:
        found = await api.get(silent)
        effects = {
            t["effect"]
            for t in found["spec"].get("taints", ())
            if t["key"] == "node.kubernetes.io/unreachable"
        }
        return found if effects == {"NoSchedule", "NoExecute"} else None

    found = await until("the silent node is tainted", tainted)
    ready = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")

    async def evicted() -> Obj | None:
        pod = await api.get(f"{pods}/p")
        return pod if "deletionTimestamp" in pod["metadata"] else None

    pod = await until("its pod is evicted", evicted)
    reasons = {each["type"]: each.get("reason") for each in pod["status"]["conditions"]}
    assert reasons["DisruptionTarget"] == "DeletionByTaintManager"
    answers = (await api.get(f"/api/v1/nodes/{WORKER}")).get("spec", {})
    assert "taints" not in answers


async def test_what_a_node_out_of_service_held_is_released(api: ProcessApi) -> None:
    """The silent node still says that it uses the volume; an operator's taint releases pod and volume all the
    same."""
    silent = f"/api/v1/nodes/{SILENT}"
    everything = [
        {"operator": "Exists", "key": f"node.kubernetes.io/{key}"} for key in ("unreachable", "not-ready")
    ]
    path = await attached(api, "stuck", nodeName=SILENT, tolerations=everything)
    await api.merge(f"{silent}/status", {"status": {"volumesInUse": [f"kubernetes.io/csi/{DRIVER}^stuck"]}})
    taints = (await api.get(silent))["spec"]["taints"]
    out = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    await api.merge(silent, {"spec": {"taints": [*taints, out]}})
    await until("the pod is gone", lambda: api.gone(f"{api.path('pods')}/user"))
    await detached(api, path)


@pytest.mark.parametrize("program", PROGRAMS)
async def test_nothing_was_missed(cluster: ProcessApi, folder: Path, program: str) -> None:
    """Stands last: what the programs said while the other tests ran."""
    logged = (folder / f"{program}.log").read_text()
    assert not [line for line in logged.splitlines() if COMPLAINT.search(line)]
