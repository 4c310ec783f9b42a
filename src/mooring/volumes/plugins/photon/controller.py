"""What is asked of Photon Controller: who has a disk, and that a machine gets it or gives it back.

Each order is a task of its own, which is waited for. Guarantee: an order counts as carried out, or as not,
only by what the disk says afterwards.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import quote

from mooring.volumes.errors import NotAsked, OutcomeUnknown, StorageRefused, VolumeInUse, VolumeNotFound
from mooring.volumes.plugins.photon.source import (
    DONE,
    FAILED,
    PLUGIN_NAME,
    DiskState,
    Task,
    VMs,
    checked_id,
    others,
    target,
    vm_of,
)
from mooring.volumes.plugins.rest import Api, RefusedBy

ORDER_S, POLL_S = 120.0, 1.0
TOKEN_BYTES = 16 * 1024


def api(settings: Mapping[str, str], may_order: Callable[[], None]) -> Api | None:
    """Photon Controller by these settings; None if there are none. Raises PluginError."""
    if "target" not in settings:
        return None
    ca, token = settings.get("caFile", ""), settings.get("tokenFile", "")
    return Api(
        target(settings["target"]),
        "Photon Controller",
        " and ".join(filter(None, (ca, token))) or "the settings caFile and tokenFile",
        partial(ssl.create_default_context, cafile=ca or None),
        partial(_headers, token),
        may_order=may_order,
    )


def _headers(token: str) -> dict[str, str]:
    if not token:
        return {}
    with Path(token).open() as file:
        text = file.read(TOKEN_BYTES).strip()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{token} is not one line of printable characters")
    return {"Authorization": f"Bearer {text}"}


class Controller:
    """Photon Controller, for the machines of one project."""

    def __init__(
        self, of: Api | None, project: str, order_s: float = ORDER_S, poll_s: float = POLL_S
    ) -> None:
        self._of, self._project = of, project
        self._order_s, self._poll_s = order_s, poll_s

    @property
    def _api(self) -> Api:
        if self._of is None or not self._project:
            raise NotAsked(
                f"this controller is not told where Photon Controller is: set --plugin-setting {PLUGIN_NAME}:target= "
                f"and :project="
            )
        return self._of

    async def attach(self, disk: str, node_name: str) -> None:
        """Idempotent. Raises VolumeInUse, VolumeNotFound, StorageRefused, NotAsked, OutcomeUnknown."""
        vm = await self._vm(node_name)
        if vm is None:
            raise NotAsked(
                f"project {self._project} of Photon Controller has no machine of the name {node_name}"
            )
        at = await self.machines(disk)
        if at is None:
            raise VolumeNotFound(disk, "correct photonPersistentDisk.pdID")
        if vm in at:
            return
        if at:
            raise VolumeInUse(disk, node_name, others(at, vm))
        await self._order(f"/vms/{vm}/attach_disk", disk, vm, there=True)

    async def detach(self, disk: str, node_name: str) -> None:
        """Idempotent; a disk that does not exist is detached. Raises StorageRefused, NotAsked,
        OutcomeUnknown."""
        at = await self.machines(disk)
        if not at:
            return
        vm = await self._vm(node_name)
        if vm is None:
            raise OutcomeUnknown(
                f"project {self._project} of Photon Controller has no machine of the name {node_name}, and disk {disk} "
                f"is attached to {', '.join(others(at, ''))}: detach it there if that was the node"
            )
        if vm in at:
            await self._order(f"/vms/{vm}/detach_disk", disk, vm, there=False)

    async def is_attached(self, disk: str, node_name: str) -> bool:
        """Raises VolumeError if that is not known."""
        at, vm = await self.machines(disk), await self._vm(node_name)
        return vm is not None and vm in (at or ())

    async def machines(self, disk: str) -> list[str] | None:
        """Which have the disk; None if there is no such disk."""
        try:
            found = await self._api.ask("GET", f"/disks/{disk}", DiskState)
        except RefusedBy as error:
            if error.status == 404:
                return None
            raise
        if found.id.lower() != disk:
            raise OutcomeUnknown(f"Photon Controller answers for another disk than {disk}")
        return found.vms or []

    async def _vm(self, node_name: str) -> str | None:
        path = f"/projects/{quote(self._project, safe='')}/vms?name={quote(node_name, safe='')}"
        return vm_of(node_name, await self._api.ask("GET", path, VMs))

    async def _order(self, path: str, disk: str, vm: str, *, there: bool) -> None:
        task = await self._api.ask("POST", path, Task, {"diskId": disk, "arguments": {}})
        task = await self._ended(task, path)
        at = await self.machines(disk) or []
        if (vm in at) == there:
            return
        if task.state == FAILED:
            raise StorageRefused(f"Photon Controller has not carried out {path} for disk {disk}: {task.why}")
        raise OutcomeUnknown(f"Photon Controller says that {path} is done, and disk {disk} says otherwise")

    async def _ended(self, task: Task, path: str) -> Task:
        name = checked_id(task.id, "task")
        try:
            async with asyncio.timeout(self._order_s):
                while task.state not in (DONE, FAILED):
                    await asyncio.sleep(self._poll_s)
                    task = await self._api.ask("GET", f"/tasks/{name}", Task)
        except TimeoutError:
            raise OutcomeUnknown(
                f"Photon Controller has not ended {path} (task {name}) within {self._order_s:g} s: it may happen still"
            ) from None
        except (StorageRefused, NotAsked) as error:  # the order itself was given
            raise OutcomeUnknown(f"what became of {path} (task {name}) is not known: {error}") from error
        return task
