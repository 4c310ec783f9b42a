"""The lab's control plane, and kubectl as its administrator: upstream's programs (`upstream.py`), or ours
(`embedded.py`)."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import yaml

GRACE_S = 12


class ControlPlane:
    """A running one at `url`, whose certificate `authority` has signed; `folder` is for the kubeconfigs."""

    def __init__(self, url: str, authority: bytes, admin: str, programs: Path, folder: Path) -> None:
        self._url, self._authority = url, authority
        self._kubectl, self._folder = programs / "kubectl", folder
        self.kubeconfig = self._written("administrator", admin)

    def kubeconfig_of_node(self, name: str) -> str:
        """What its kubelet is given."""
        raise NotImplementedError

    def settings_of_kubelets(self) -> dict[str, Any]:
        """What it asks of its kubelets."""
        return {}

    def kubeconfig_of_account(self, name: str) -> Path:
        """What a program has that runs as this account of kube-system."""
        raise NotImplementedError

    def kubectl(self, *words: str, given: str | None = None) -> str:
        """What kubectl prints."""
        done = subprocess.run(self.command(*words), input=given, check=False, capture_output=True, text=True)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout

    def command(self, *words: str) -> list[str]:
        """A command line of kubectl."""
        return [str(self._kubectl), "--kubeconfig", str(self.kubeconfig), *words]

    def get(self, kind: str, name: str = "") -> dict[str, Any]:
        """An object, or a list of all in the namespace default."""
        return json.loads(self.kubectl("get", kind, *([name] if name else []), "-o", "json"))

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        found = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(found) if found else None

    def apply(self, *objects: dict[str, Any]) -> None:
        self.kubectl("apply", "-f", "-", given=yaml.safe_dump_all(objects))

    def _written(self, name: str, token: str) -> Path:
        path = self._folder / f"{name}.kubeconfig"
        path.write_text(self._text(token))
        return path

    def _text(self, token: str) -> str:
        authority = base64.b64encode(self._authority).decode()
        cluster = {"server": self._url, "certificate-authority-data": authority}
        named = {
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "user"}}],
        }
        return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": "lab", **named})
