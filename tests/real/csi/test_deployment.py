"""deploy/ebs-driver: what kustomize makes of it is valid, its commands are real, and its roles are enough."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import click
import pytest
import yaml

from mooring.apiserver.data_directory import write_kubeconfig
from mooring.cli.ebs_driver import ebs_driver, options_of
from mooring.cli.main import cli
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from mooring.kube.objects.snapshots import VolumeSnapshotClass, VolumeSnapshotContent

from ..server import RealServer
from .conftest import MOORING, NAME, SIZE, Ground
from .test_sidecars import exists, gone, is_attached, no_disk, unprotect

pytestmark = [pytest.mark.root, pytest.mark.timeout(170)]

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy" / "ebs-driver"
CHOICES = ("base", "overlays/any-node", "overlays/node-only", "overlays/upstream-sidecars", "with snapshots")


def kubectl(programs: Path, *words: str, given: str = "") -> str:
    done = subprocess.run(
        [programs / "kubectl", *words], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def made(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What kustomize makes, by choice."""
    own = tmp_path_factory.mktemp("own")
    beside = DEPLOY.relative_to(ROOT)
    lines = [f"resources: [{beside}/base]", f"components: [{beside}/components/snapshots]"]
    (own / "kustomization.yaml").write_text("\n".join(lines))
    (own / "deploy").symlink_to(ROOT / "deploy")
    choices = {name: DEPLOY / name for name in CHOICES if name != "with snapshots"}
    found = {name: kubectl(programs, "kustomize", str(path)) for name, path in choices.items()}
    unconfined = ("kustomize", "--load-restrictor=LoadRestrictionsNone", str(own))
    return {**found, "with snapshots": kubectl(programs, *unconfined)}


def pods(text: str) -> dict[str, dict[str, Any]]:
    """The pod specs of the objects, by name."""
    objects = [each for each in yaml.safe_load_all(text) if "template" in each.get("spec", {})]
    return {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in objects}


def containers(text: str) -> Iterator[dict[str, Any]]:
    for spec in pods(text).values():
        yield from spec["containers"]


@pytest.mark.parametrize("choice", CHOICES)
def test_the_server_takes_it_strictly(
    programs: Path, kubeconfig: Path, made: dict[str, str], choice: str
) -> None:
    where = (f"--kubeconfig={kubeconfig}", "apply", "--validate=strict", "-f", "-")
    output = kubectl(programs, *where, given=made[choice])
    assert "daemonset.apps/ebs-csi-node" in output
    kubectl(programs, *where, "--dry-run=server", "--server-side", "--force-conflicts", given=made[choice])


@pytest.mark.parametrize("choice", CHOICES)
def test_the_commands_in_its_pods_are_ours_and_take_their_arguments(
    made: dict[str, str], choice: str
) -> None:
    ours = [each for each in containers(made[choice]) if each["image"] == "mooring"]
    assert ours
    for container in ours:
        parse(container["args"])


def parse(words: list[str]) -> None:
    """Raises click.UsageError if the real command would."""
    command: click.Command = cli
    context = click.Context(command)
    while isinstance(command, click.Group):
        word, *words = words
        found = command.get_command(context, word)
        assert found is not None, word
        command = found
    given = command.make_context(command.name, list(words))
    if command is ebs_driver:
        chosen = {
            name
            for name in given.params
            if given.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        }
        rest = {
            name: value for name, value in given.params.items() if name not in ("verbosity", "logging_format")
        }
        options_of(rest, chosen, {})


def test_a_wrong_argument_would_be_seen() -> None:
    with pytest.raises(click.UsageError):
        parse(["ebs-driver", "node", "--extra-tags=a=b"])
    with pytest.raises(click.UsageError):
        parse(["csi", "attacher", "--banana"])


def test_the_programs_of_the_sidecars_take_their_arguments(programs: Path, made: dict[str, str]) -> None:
    sidecars = {each["name"]: each["args"] for each in containers(made["overlays/upstream-sidecars"])}
    for name in ("csi-attacher", "csi-resizer"):
        if not (programs / name).exists():
            pytest.skip(f"needs {name}: run `make assets`")
        done = subprocess.run(
            [programs / name, *sidecars[name], "--version"], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


def test_nodes_have_neither_credentials_nor_a_token(made: dict[str, str]) -> None:
    for text in made.values():
        spec = pods(text)["ebs-csi-node"]
        assert spec["automountServiceAccountToken"] is False
        assert [each["name"] for each in spec["containers"] if "env" in each] == []


def test_the_controller_is_on_infrastructure_nodes_and_the_node_service_everywhere(
    made: dict[str, str],
) -> None:
    specs = pods(made["base"])
    terms = specs["ebs-csi-controller"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    keys = {each["key"] for term in terms["nodeSelectorTerms"] for each in term["matchExpressions"]}
    assert keys == {"node-role.kubernetes.io/infra", "node-role.kubernetes.io/control-plane"}
    assert specs["ebs-csi-node"]["tolerations"] == [{"operator": "Exists"}]
    assert "nodeAffinity" not in pods(made["overlays/any-node"])["ebs-csi-controller"]["affinity"]
    assert pods(made["overlays/node-only"]).keys() == {"ebs-csi-node"}


@pytest.fixture
def account(real: RealServer, programs: Path, made: dict[str, str], tmp_path: Path) -> Path:
    """The kubeconfig of the controller's ServiceAccount on the real API server, with the roles of the
    manifest."""
    admin = tmp_path / "admin"
    write_kubeconfig(admin, real.url, real.token, real.authority.read_bytes())
    kubectl(programs, f"--kubeconfig={admin}", "apply", "-f", "-", given=made["with snapshots"])
    words = ("create", "token", "ebs-csi-controller", "-n", "kube-system")
    token = kubectl(programs, f"--kubeconfig={admin}", *words).strip()
    path = tmp_path / "account"
    write_kubeconfig(path, real.url, token, real.authority.read_bytes())
    return path


@pytest.mark.parametrize("kubeconfig", ["kube-apiserver"], indirect=True)
async def test_its_roles_allow_what_the_sidecars_do(
    ground: Ground, account: Path, made: dict[str, str]
) -> None:
    with ExitStack() as stack:
        for container in containers(made["with snapshots"]):
            if container["args"][0] == "csi" and container["args"][1] != "registrar":
                role = container["args"][1]
                flags = [each for each in container["args"][2:] if not each.startswith("--csi-address")]
                address = (f"--kubeconfig={account}", f"--csi-address={ground.socket}")
                stack.enter_context(ground._run(f"mooring-{role}", *MOORING, "csi", role, *address, *flags))
        await a_volume_comes_and_goes(ground)
        assert "forbidden" not in "".join(path.read_text() for path in ground.folder.glob("mooring-*.log"))


async def a_volume_comes_and_goes(ground: Ground) -> None:
    """Provisioned, attached, grown, kept in a snapshot, detached, deleted: everything that the sidecars
    do."""
    client = ground.client
    of_class = {"metadata": {"name": ground.name}, "provisioner": NAME, "allowVolumeExpansion": True}
    await client.create(StorageClass, of_class)
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": str(SIZE)}}}
    notes = {"volume.kubernetes.io/storage-provisioner": NAME}
    body = {
        "metadata": {"name": ground.name, "annotations": notes},
        "spec": {**asked, "storageClassName": ground.name},
    }
    claim = await client.create(PersistentVolumeClaim, body, "default")
    volume = f"pvc-{claim.uid}"
    await ground.until("there is a volume", lambda: exists(ground, volume))
    spec = {"attacher": NAME, "nodeName": ground.name, "source": {"persistentVolumeName": volume}}
    await client.create(VolumeAttachment, {"metadata": {"name": ground.name}, "spec": spec})
    await ground.until("it is attached", lambda: is_attached(ground))
    await _bind(ground, volume)
    more = {"spec": {"resources": {"requests": {"storage": str(2 * SIZE)}}}}
    await client.patch(PersistentVolumeClaim, ground.name, more, "default")
    await ground.until("the volume has grown", lambda: _has_grown(ground, volume))
    await _keep(ground, volume)
    await client.delete(VolumeAttachment, ground.name)
    await ground.until("it is detached", lambda: gone(ground, VolumeAttachment, ground.name))
    await client.delete(PersistentVolumeClaim, ground.name, "default")
    await unprotect(ground, PersistentVolumeClaim, ground.name, "default")
    await ground.until(
        "the claim is gone", lambda: gone(ground, PersistentVolumeClaim, ground.name, "default")
    )
    await client.patch(PersistentVolume, volume, {"status": {"phase": "Released"}}, subresource="status")
    await ground.until("the disk is gone", lambda: no_disk(ground))
    await unprotect(ground, PersistentVolume, volume)
    await ground.until("the volume is gone", lambda: gone(ground, PersistentVolume, volume))


async def _bind(ground: Ground, volume: str) -> None:
    """What the binder would do."""
    client = ground.client
    await client.patch(PersistentVolumeClaim, ground.name, {"spec": {"volumeName": volume}}, "default")
    await client.patch(PersistentVolume, volume, {"status": {"phase": "Bound"}}, subresource="status")
    status = {"phase": "Bound", "capacity": {"storage": str(SIZE)}, "accessModes": ["ReadWriteOnce"]}
    await client.patch(
        PersistentVolumeClaim, ground.name, {"status": status}, "default", subresource="status"
    )


async def _has_grown(ground: Ground, volume: str) -> bool:
    pv = await ground.client.get(PersistentVolume, volume)
    return pv.spec.capacity["storage"] in (str(2 * SIZE), "32Mi")


async def _keep(ground: Ground, volume: str) -> None:
    """A snapshot, as the snapshot controller asks for it."""
    client = ground.client
    handle = (await client.get(PersistentVolume, volume)).spec.csi
    assert handle is not None
    of_class = {"metadata": {"name": ground.name}, "driver": NAME, "deletionPolicy": "Delete"}
    await client.create(VolumeSnapshotClass, of_class)
    reference = {"kind": "VolumeSnapshot", "namespace": "default", "name": ground.name, "uid": str(uuid4())}
    spec = {
        "driver": NAME,
        "deletionPolicy": "Delete",
        "source": {"volumeHandle": handle.volume_handle},
        "volumeSnapshotClassName": ground.name,
        "volumeSnapshotRef": {**reference, "apiVersion": "snapshot.storage.k8s.io/v1"},
    }
    await client.create(VolumeSnapshotContent, {"metadata": {"name": ground.name}, "spec": spec})

    async def is_kept() -> bool:
        return bool((await client.get(VolumeSnapshotContent, ground.name)).status.ready_to_use)

    await ground.until("the snapshot is ready", is_kept)
    notes = {
        "metadata": {"annotations": {"snapshot.storage.kubernetes.io/volumesnapshot-being-deleted": "yes"}}
    }
    await client.patch(VolumeSnapshotContent, ground.name, notes)
    await client.delete(VolumeSnapshotContent, ground.name)
    await ground.until("the snapshot is gone", lambda: gone(ground, VolumeSnapshotContent, ground.name))
