"""Which API server to use: the one that a kubeconfig names, or that of the cluster whose pod we run in.

`connect` takes the file given, else the files of KUBECONFIG, else ~/.kube/config, else the service account of
the pod. What is in the files is `mooring.kube.kubeconfig`'s business.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from mooring.kube.access import SERVICE_ACCOUNT, Access, in_cluster
from mooring.kube.client import Client
from mooring.kube.errors import ConfigError
from mooring.kube.kubeconfig import resolve
from mooring.kube.times import Now, wall_clock


class NoKubeconfig(ConfigError):
    """There is no kubeconfig where one was looked for."""


def connect(
    environ: Mapping[str, str],
    given: str | None = None,
    context: str | None = None,
    *,
    service_account: Path = SERVICE_ACCOUNT,
) -> Client:
    """A client for the API server to use. Raises ConfigError as `access`."""
    return access(environ, given, context, service_account=service_account).client()


def access(
    environ: Mapping[str, str],
    given: str | None = None,
    context: str | None = None,
    *,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The API server to use, and by which credentials; ConfigError naming what was tried. A pod's own only if
    no file is given."""
    try:
        files = find(environ, given)
    except NoKubeconfig:
        if given or not environ.get("KUBERNETES_SERVICE_HOST"):
            raise
        return in_cluster(environ, service_account)
    return read(files, context)


def find(environ: Mapping[str, str], given: str | None = None) -> tuple[Path, ...]:
    """The kubeconfig files to merge, those that exist; NoKubeconfig naming the places that were tried."""
    listed = [Path(entry) for entry in environ.get("KUBECONFIG", "").split(os.pathsep) if entry]
    places = [Path(given)] if given else listed or [Path("~/.kube/config").expanduser()]
    found = tuple(place for place in places if place.is_file())
    if not found:
        tried = ", ".join(str(place) for place in places)
        raise NoKubeconfig(f"no kubeconfig at {tried}: give one with --kubeconfig, or set KUBECONFIG")
    return found


def load(files: Path | Sequence[Path], context: str | None = None) -> Client:
    """A client for the API server that the kubeconfig's context names."""
    return read(files, context).client()


def read(files: Path | Sequence[Path], context: str | None = None, *, now: Now = wall_clock) -> Access:
    """The server and credentials of a context; of the current one if none is named."""
    return resolve((files,) if isinstance(files, Path) else tuple(files), context, now)
