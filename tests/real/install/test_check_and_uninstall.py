"""`mooring install --check` and `mooring uninstall` on the real kube-apiserver."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from tests.real.install.helpers import kubeconfig_of, kubectl
from tests.real.server import RealServer

from mooring.cli.main import cli
from mooring.install.components import Settings, objects
from mooring.install.resources import RESOURCES
from mooring.install.uninstall import Refused, read, uninstall
from mooring.kube import config
from mooring.kube.client import Client

COMPONENTS = ("attach-detach", "fencing", "forced-removal", "ebs-driver-any-node")
OTHERS = ("persistentvolumes", "nodes", "volumeattachments", "persistentvolumeclaims", "leases", "pods")
CHANGES = ("resourceVersion", "managedFields", "generation")
MARKS = {"mooring.dev/attached-to": "{}", "example.com/own": "stays"}


def node(name: str, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **metadata}}


def volume(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "example.com", "volumeHandle": name},
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


def attachment(name: str, attacher: str = "example.com", **metadata: Any) -> dict[str, Any]:
    spec = {"attacher": attacher, "nodeName": "marked", "source": {"persistentVolumeName": "marked"}}
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment"}
    return {**head, "metadata": {"name": name, **metadata}, "spec": spec}


class Installed:
    """The real server, as a person at a terminal has it."""

    def __init__(self, programs: Path, real: RealServer, folder: Path) -> None:
        self._programs = programs
        self.kubeconfig = kubeconfig_of(real, folder)

    def kubectl(self, *words: str, given: str = "") -> str:
        return kubectl(self._programs, f"--kubeconfig={self.kubeconfig}", *words, given=given)

    def apply(self, *made: dict[str, Any]) -> None:
        self.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", given=yaml.safe_dump_all(made))

    def mooring(self, *words: str) -> Result:
        return CliRunner().invoke(cli, [*words, "--kubeconfig", str(self.kubeconfig)])

    def said(self, *words: str) -> dict[str, list[str]]:
        """The findings of a check, by level."""
        found = json.loads(self.mooring("install", "--check", "-o", "json", *words).stdout)
        return {
            level: [each["what"] for each in found if each["level"] == level]
            for level in ("ok", "look", "mend")
        }

    def everything(self) -> dict[str, Any]:
        """All objects that could have been touched, without what every write changes."""
        kinds = [f"{each.plural}.{each.group}".rstrip(".") for each in RESOURCES.values()]
        listed = self.kubectl("get", ",".join([*kinds, *OTHERS]), "-A", "-o", "json")
        found: dict[str, Any] = {}
        for each in json.loads(listed)["items"]:
            metadata = {key: value for key, value in each["metadata"].items() if key not in CHANGES}
            # What `kubectl apply` itself leaves behind.
            metadata["annotations"] = dict(metadata.get("annotations") or {})
            key = f"{each['kind']}/{metadata.get('namespace', '')}/{metadata['name']}"
            if key.startswith("Lease/kube-system/apiserver-"):
                continue  # the server renews its own
            found[key] = {**each, "metadata": metadata}
        return found

    def run(self, work: Any) -> Any:
        async def ran() -> Any:
            client = config.connect({}, str(self.kubeconfig))
            try:
                return await work(client)
            finally:
                await client.close()

        return asyncio.run(ran())


@pytest.fixture
def installed(programs: Path, real: RealServer, tmp_path: Path) -> Iterator[Installed]:
    made = Installed(programs, real, tmp_path)
    yield made
    made.kubectl("delete", "node,pv,volumeattachments", "-l", "of=test", "--wait=false")
    made.mooring("uninstall", "--confirm", "--nothing-runs")


def test_a_cluster_without_anything_has_nothing_to_mend(installed: Installed):
    result = installed.mooring("install", "--check", "--components", "attach-detach,fencing,forced-removal")
    assert result.exit_code == 0, result.output
    assert "v1.36" in result.output
    assert "no kube-controller-manager is visible" in result.output


def test_upstreams_controller_and_a_rival_are_found_in_the_cluster(installed: Installed):
    containers = [{"name": "c", "image": "x", "command": ["kube-controller-manager", "--controllers=*"]}]
    manager = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "kube-controller-manager-a", "namespace": "kube-system"},
        "spec": {"containers": containers},
    }
    (rival,) = [each for each in objects(["attach-detach"], Settings("x")) if each["kind"] == "Deployment"]
    rival["metadata"] = {"name": "theirs", "namespace": "default"}
    try:
        installed.apply(manager, rival)
        result = installed.mooring("install", "--check")
        assert result.exit_code == 1
        assert (
            "pod kube-system/kube-controller-manager-a runs upstream's attach/detach controller"
            in result.output
        )
        assert "Deployment default/theirs runs the controller attachdetach too" in result.output
    finally:
        installed.kubectl(
            "delete", "pod/kube-controller-manager-a", "-n", "kube-system", "--force", "--grace-period=0"
        )
        installed.kubectl("delete", "deployment/theirs")


def test_snapshots_without_their_kinds_are_refused(installed: Installed):
    (said,) = installed.said("--components", "ebs-driver-with-snapshots")["mend"]
    assert "snapshot.storage.k8s.io/v1" in said


def test_one_without_rights_is_told_so_and_nothing_is_changed(installed: Installed):
    before = installed.everything()
    installed.kubectl("create", "serviceaccount", "reader", "-n", "default")
    installed.kubectl("create", "clusterrole", "more", "--verb=get,list",
                      "--resource=pods,deployments,daemonsets,customresourcedefinitions,csidrivers,leases")  # fmt: skip
    installed.kubectl(
        "create", "clusterrolebinding", "more", "--clusterrole=more", "--serviceaccount=default:reader"
    )
    try:
        token = installed.kubectl("create", "token", "reader").strip()
        given = yaml.safe_load(installed.kubeconfig.read_text())
        given["users"][0]["user"] = {"token": token}
        installed.kubeconfig.with_name("reader").write_text(yaml.safe_dump(given))
        reader = ["--kubeconfig", str(installed.kubeconfig.with_name("reader"))]
        result = CliRunner().invoke(cli, ["install", "--check", *reader])
        assert result.exit_code == 1, result.output
        assert "you may not create clusterrole" in result.output
    finally:
        installed.kubectl("delete", "serviceaccount/reader")
        installed.kubectl("delete", "clusterrolebinding/more", "clusterrole/more")
    assert installed.everything() == before


def test_what_was_installed_goes_without_a_trace(installed: Installed):
    own = {"labels": {"of": "test"}}
    plain = {"annotations": {"example.com/own": "stays"}, **own}
    installed.apply(node("marked", **plain), volume("marked", **plain), attachment("marked", **plain))
    before = installed.everything()
    installed.apply(*[each for each in objects(COMPONENTS, Settings("x:1")) if each["kind"] == "Namespace"])
    installed.apply(*objects(COMPONENTS, Settings("x:1")))
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "mooring-attachdetach", "namespace": "kube-system"},
        "spec": {"holderIdentity": ""},
    }
    marked = {"annotations": MARKS, **own}
    finalizers = ["fencing.mooring.dev/node"]
    installed.apply(
        lease,
        node("marked", finalizers=finalizers, **marked),
        volume("marked", **marked),
        attachment("marked", **marked),
    )
    said = installed.mooring("uninstall")
    assert "nothing was changed" in said.output
    assert "delete deployments/mooring-attach-detach in kube-system" in said.output
    assert installed.everything()["PersistentVolume//marked"]["metadata"]["annotations"] == MARKS
    result = installed.mooring("uninstall", "--confirm")
    assert result.exit_code == 0, result.output
    after = installed.everything()
    after.pop("Namespace//mooring-fencing", None)  # no controller of namespaces runs here: it ends there
    assert after == before


def test_while_volumes_are_attached_by_our_driver_nothing_is_taken_away(installed: Installed):
    labels = {"labels": {"of": "test"}}
    installed.apply(*objects(["ebs-driver-any-node"], Settings("x:1")))
    installed.apply(attachment("ebs", "ebs.csi.aws.com", **labels))
    before = installed.everything()
    result = installed.mooring("uninstall", "--confirm")
    assert result.exit_code == 1
    assert "marked on marked" in result.output
    assert installed.everything() == before


def test_a_controller_that_runs_elsewhere_keeps_its_marks(installed: Installed):
    """Its Lease is renewed while the marks would be taken off: it would write them again."""
    marked = {"annotations": MARKS, "labels": {"of": "test"}}
    installed.apply(volume("marked", **marked))

    async def work(client: Client) -> None:
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        body = {"metadata": {"name": "mooring-attachdetach"}, "spec": {"holderIdentity": "laptop"}}
        await client.request("POST", path, body=body)

        async def renew() -> None:
            for number in range(60):
                spec = {"spec": {"leaseTransitions": number}}
                kind = "application/merge-patch+json"
                await client.request("PATCH", f"{path}/mooring-attachdetach", body=spec, content_type=kind)
                await asyncio.sleep(0.3)

        renewing = asyncio.create_task(renew())
        try:
            with pytest.raises(Refused, match="laptop"):
                await uninstall(client, lambda line: None, nothing_runs=True)
        finally:
            renewing.cancel()
            await client.request("DELETE", f"{path}/mooring-attachdetach")
        (kept,) = [each for each in (await read(client)).objects if each.name == "marked"]
        assert kept.metadata.annotations == MARKS

    installed.run(work)
