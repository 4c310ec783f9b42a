"""The subPaths of a container, before it is started.

A subPath that cannot be used is a problem that may pass: the container waits, and the next try looks again.
What is wrong on the node is logged and never told to the pod's user, as upstream's kubelet does: it would say
what the node has.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import structlog

from mooring.kube.objects import Pod
from mooring.mounts.blocking import blocking
from mooring.node.pods.environment import config_problem
from mooring.node.runtime import ContainerSpec
from mooring.node.supervisor.sub_path import LeadsOut, open_sub_path

log = structlog.get_logger("node-agent")


async def prepare_sub_paths(pod: Pod, spec: ContainerSpec, volumes: Mapping[str, str]) -> None:
    """Makes the directories that the container's subPaths name, in `volumes` by name. Raises
    `ContainerConfigProblem`."""
    for mount in spec.mounts:
        if not mount.sub_path or mount.volume not in volumes:
            continue
        try:
            await blocking(_prepare, volumes[mount.volume], mount.sub_path)
        except (LeadsOut, OSError) as error:
            log.warning("subPath not usable", pod=pod.key, container=spec.name, error=str(error))
            done = "prepare subPath" if isinstance(error, LeadsOut) else "create subPath directory"
            what = f'failed to {done} for volumeMount "{mount.volume}" of container "{spec.name}"'
            raise config_problem(what) from None


def _prepare(volume: str, path: str) -> None:
    os.close(open_sub_path(volume, path))
