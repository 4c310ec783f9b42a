"""How single rules are switched off in the production code: without them a schedule does its harm."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.controllers.attachdetach import test_counterexamples as counterexamples

from mooring.controllers.attachdetach import decide, handshake, release
from mooring.controllers.attachdetach.locks import Locks
from mooring.controllers.attachdetach.release import Release, ReleaseDecision
from mooring.kube.client import Client
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.reason import Reason
from mooring.volumes.attachment_lock import Lock

Patch = pytest.MonkeyPatch
deletes_without_version = counterexamples.without_version_on_the_deletion
leaves_the_node_as_it_is = counterexamples.without_a_change_of_the_node_by_every_unreport
believes_the_cache = counterexamples.without_a_live_look_at_the_attachment
judges_an_earlier_read = counterexamples.with_a_judgement_made_before


def judges_not_ready_as_silent(patch: Patch) -> None:
    def weak(node: Any, attachment: Any, terms: Any) -> ReleaseDecision:
        if node and node.tainted and node.ready != "True":
            return ReleaseDecision(Release.FORCE, Reason("OutOfService", "not ready"))
        return ReleaseDecision(Release.KEEP, Reason("InUse", "not ready"))

    patch.setattr(handshake, "may_release", weak)


def lets_any_node_of_that_name_speak(patch: Patch) -> None:
    for module in (release, decide):
        patch.setattr(module, "is_same_node", lambda node, attachment: True)


def does_not_compare_epochs(patch: Patch) -> None:
    async def anyhow(self: Locks, record: VolumeAttachment) -> bool:
        return True

    patch.setattr(Locks, "is_current", anyhow)


def keeps_the_epoch(patch: Patch) -> None:
    def same(self: Lock, node: Node, pod: str) -> Lock:
        return msgspec.structs.replace(self, epoch=1, node=node.name, pod=pod)

    patch.setattr(Lock, "granted", same)
    whole = Lock.released
    patch.setattr(
        Lock, "released", lambda self, node, boot_id, *, advance: whole(self, node, "", advance=False)
    )


def writes_the_list_without_its_version(patch: Patch) -> None:
    whole = Client.patch

    async def weak(self: Client, kind: Any, *args: Any, **kw: Any) -> Any:
        if kind is Node:
            kw["resource_version"] = None
        return await whole(self, kind, *args, **kw)

    patch.setattr(Client, "patch", weak)
