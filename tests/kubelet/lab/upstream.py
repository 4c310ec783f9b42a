"""Upstream's control plane: kube-apiserver on etcd, kube-scheduler, and kube-controller-manager without its
attach/detach controller; with the accounts and rights of `deploy/`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

import yaml
from tests.kubelet.lab.control import GRACE_S, ControlPlane
from tests.kubelet.lab.network import API_HOST
from tests.real.server import process, real_server

WITHOUT_ATTACH_DETACH = "*,-persistentvolume-attach-detach-controller"
DEPLOY = Path(__file__).parents[3] / "deploy"
RIGHTS = (DEPLOY, DEPLOY / "ebs-driver" / "base")
WORKLOADS = ("Deployment", "DaemonSet", "PodDisruptionBudget")


class Upstream(ControlPlane):
    """Its nodes have fixed tokens; accounts get theirs from the API server."""

    def attach_detach(self) -> AbstractContextManager[Any]:
        """Upstream's own attach/detach controller, for as long as the block lasts."""
        name = "persistentvolume-attach-detach-controller"
        return _controller_manager(self, self._kubectl.parent, self._folder, name, "upstream-attach-detach")

    def kubeconfig_of_node(self, name: str) -> str:
        return self._text(_token_of(name))

    def kubeconfig_of_account(self, name: str) -> Path:
        return self._written(name, self.kubectl("create", "token", name, "-n", "kube-system").strip())


@contextmanager
def upstream(programs: Path, folder: Path, nodes: Sequence[str]) -> Iterator[Upstream]:
    """Without nodes yet."""
    flags = [
        "--authorization-mode=Node",  # beside RBAC, which every real server here has
        "--enable-admission-plugins=NodeRestriction",
        "--kubelet-preferred-address-types=InternalIP",
    ]
    users = [f"{_token_of(each)},system:node:{each},{each},system:nodes" for each in nodes]
    with ExitStack() as stack:
        server = stack.enter_context(
            real_server(programs, folder, flags=flags, users=users, host=API_HOST, accounts=True)
        )
        control = Upstream(server.url, server.authority.read_bytes(), server.token, programs, folder)
        stack.enter_context(_controller_manager(control, programs, folder, WITHOUT_ATTACH_DETACH))
        scheduler = [str(programs / "kube-scheduler"), *_common(control, folder, "scheduler")]
        stack.enter_context(process(scheduler, folder / "scheduler.log"))
        for kustomization in RIGHTS:
            control.apply(*_without_workloads(control.kubectl("kustomize", str(kustomization))))
        yield control


def _controller_manager(
    control: ControlPlane, programs: Path, folder: Path, controllers: str, name: str = "controller-manager"
) -> AbstractContextManager[Any]:
    command = [
        str(programs / "kube-controller-manager"),
        *_common(control, folder, name),
        *([] if name == "controller-manager" else ["--secure-port=10357"]),
        f"--controllers={controllers}",
        f"--node-monitor-grace-period={GRACE_S}s",
        f"--service-account-private-key-file={folder / 'service-account.key'}",
        f"--root-ca-file={folder / 'certificates' / 'apiserver.crt'}",
    ]
    return process(command, folder / f"{name}.log")


def _common(control: ControlPlane, folder: Path, name: str) -> list[str]:
    return [
        f"--kubeconfig={control.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--cert-dir={folder / name}",
    ]


def _without_workloads(manifests: str) -> list[dict[str, Any]]:
    """Accounts, rights and kinds: the programs run here as processes. Those of the EBS driver are another
    driver's here, which `mooring uninstall` does not know."""
    made = [each for each in yaml.safe_load_all(manifests) if each["kind"] not in WORKLOADS]
    for each in made:
        if each["metadata"]["name"] == "ebs-csi-controller":
            del each["metadata"]["labels"]
    return made


def _token_of(node: str) -> str:
    return f"the-kubelet-of-{node}"
