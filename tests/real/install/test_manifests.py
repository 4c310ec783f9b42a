"""What `mooring install` makes, by kubectl, Helm and the real kube-apiserver."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.real.install.helpers import kubeconfig_of, kubectl
from tests.real.server import RealServer

from mooring.apiserver.errors import Obj
from mooring.install import kustomize
from mooring.install.chart import chart, key
from mooring.install.components import COMPONENTS, MANIFESTS, Settings, objects

FOLDERS = (
    ".",
    *(
        f"ebs-driver/{each}"
        for each in ("base", "overlays/any-node", "overlays/node-only", "overlays/upstream-sidecars")
    ),
)
SETTINGS = Settings("registry.example.com/mooring:v1")
VERSION = "1.36.0"


def by_name(made: list[Obj]) -> dict[tuple[str, str, str], Any]:
    """The objects without what has no meaning: the order of containers."""
    for each in made:
        pod = each.get("spec", {}).get("template", {}).get("spec", {})
        pod.get("containers", []).sort(key=lambda container: container["name"])
    return {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in made
    }


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_kustomization_is_what_kubectl_makes_of_it(programs: Path, folder: str):
    real = kubectl(programs, "kustomize", str((MANIFESTS / folder).resolve()))
    assert by_name(kustomize.build(MANIFESTS / folder)) == by_name(list(yaml.safe_load_all(real)))


@pytest.mark.parametrize("name", list(COMPONENTS))
def test_the_server_takes_a_component_strictly(programs: Path, real: RealServer, tmp_path: Path, name: str):
    text = yaml.safe_dump_all(
        [each for each in objects([name], SETTINGS) if each["kind"] != "Namespace"], sort_keys=False
    ).replace("mooring-fencing", "kube-system")  # a dry run makes no namespace
    where = (
        f"--kubeconfig={kubeconfig_of(real, tmp_path)}",
        "apply",
        "--dry-run=server",
        "--validate=strict",
    )
    assert kubectl(programs, *where, "--server-side", "-f", "-", given=text)


@pytest.fixture(scope="session")
def written(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (programs / "helm").exists():
        pytest.skip("needs helm: run `make assets`")
    folder = tmp_path_factory.mktemp("chart") / "mooring"
    for name, text in chart().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def helm(programs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([programs / "helm", *words], capture_output=True, text=True, check=False)


def template(programs: Path, chart: Path, *settings: str) -> subprocess.CompletedProcess[str]:
    given = [word for each in settings for word in ("--set", each)]
    return helm(programs, "template", "mooring", str(chart), "--kube-version", VERSION, *given)


def test_helm_finds_nothing_wrong_with_the_chart(programs: Path, written: Path):
    done = helm(programs, "lint", "--strict", str(written))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", list(COMPONENTS))
def test_helm_makes_what_install_prints(programs: Path, written: Path, name: str):
    image = "image.repository=registry.example.com/mooring,image.tag=v1,attachDetach.enabled=false"
    done = template(programs, written, f"{image},{key(name)}.enabled=true")
    assert done.returncode == 0, done.stderr
    found = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert by_name([_without_policies(each) for each in found]) == by_name(objects([name], SETTINGS))


def _without_policies(obj: Obj) -> Obj:
    """Without what the chart alone has."""
    obj["metadata"].get("annotations", {}).pop("helm.sh/resource-policy", None)
    if obj["metadata"].get("annotations") == {}:
        del obj["metadata"]["annotations"]
    for each in obj.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
        each.pop("imagePullPolicy", None)
    return obj


def test_values_reach_the_pods(programs: Path, written: Path):
    done = template(
        programs, written, "attachDetach.args={--force-detach-after=off}", "attachDetach.nodeSelector.disk=fast",
        "attachDetach.replicas=3", "image.pullSecrets[0].name=ours", "attachDetach.tolerations[0].operator=Exists",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (spec,) = [
        each["spec"] for each in yaml.safe_load_all(done.stdout) if each and each["kind"] == "Deployment"
    ]
    pod = spec["template"]["spec"]
    assert spec["replicas"] == 3
    assert pod["containers"][0]["args"][-1] == "--force-detach-after=off"
    assert pod["nodeSelector"] == {"disk": "fast"}
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["imagePullSecrets"] == [{"name": "ours"}]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("ebsDriver.enabled=true,ebsDriverNodeOnly.enabled=true", "are forms of one thing"),
        ("attachDetatch.enabled=true", "not allowed"),
        ("attachDetach.replicas=none", "integer"),
    ],
)
def test_values_that_make_no_sense_are_refused(programs: Path, written: Path, setting: str, says: str):
    done = template(programs, written, setting)
    assert done.returncode != 0
    assert says in done.stderr
