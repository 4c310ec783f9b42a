"""The objects that stories apply."""

from __future__ import annotations

from typing import Any

from tests.kubelet.lab.images import SHELL

RECORDS = "cat /data/log; while :; do echo $(date +%s) $(hostname) >> /data/log; sync; sleep 0.2; done"
DATA = {"name": "data", "mountPath": "/data"}


def claim(
    name: str, *, modes: tuple[str, ...] = ("ReadWriteOnce",), size: str = "64Mi", **spec: Any
) -> dict[str, Any]:
    made = {"accessModes": list(modes), "resources": {"requests": {"storage": size}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": made}


def pod(name: str, script: str, *volumes: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """Runs a shell script. The first volume is at /data, unless `container` says otherwise."""
    own = spec.pop("container", {"volumeMounts": [DATA]})
    container = {"name": "c", "image": SHELL, "command": ["sh", "-c", script], **own}
    made = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": list(volumes), **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": made}


def of_claim(name: str) -> dict[str, Any]:
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


def recorder(name: str, replicas: int = 1) -> dict[str, Any]:
    """A StatefulSet whose pods write on and on, each to a volume of its own."""
    labels = {"app": name}
    template = pod(name, RECORDS)["spec"]
    template.pop("volumes")
    data = claim("data")
    spec = {
        "serviceName": name,
        "replicas": replicas,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template},
        "volumeClaimTemplates": [{"metadata": data["metadata"], "spec": data["spec"]}],
    }
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": name}, "spec": spec}
