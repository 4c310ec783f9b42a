"""C1 to C16 (docs/protocol.md): for each schedule its rule, and how the rule is switched off."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from tests.golden import agents, attacher, instances, locked, rules_off
from tests.golden.agents import AgentScene
from tests.golden.attacher import AttacherScene
from tests.golden.scene import InstancesScene, Scene

from mooring.controllers.attachdetach import locks, release


@dataclass(frozen=True)
class Schedule:
    """`rule`: what prevents the harm. `without`: the production code with that rule switched off, and how."""

    name: str
    title: str
    rule: str
    scene: Callable[[], Scene]
    play: Callable[[Any], Awaitable[None]]
    without: str
    switch_off: Callable[[pytest.MonkeyPatch], None]


SCHEDULES = (
    Schedule(
        "C01",
        "A late report",
        "A report carries the version of the Node that it was computed from (R3); an un-report changes the Node (R4).",
        InstancesScene,
        instances.late_report,
        "the list is written without the version that it was computed from",
        rules_off.writes_the_list_without_its_version,
    ),
    Schedule(
        "C02a",
        "A deletion whose outcome is not known",
        "Before a report, the VolumeAttachment is read live (R3).",
        InstancesScene,
        instances.unanswered_deletion,
        "a report believes the cache",
        rules_off.believes_the_cache,
    ),
    Schedule(
        "C02b",
        "A deletion that arrives late",
        "A deletion carries the version that the mark returned (R2): to take the mark back makes it void.",
        InstancesScene,
        instances.late_deletion,
        "the deletion carries no version",
        rules_off.deletes_without_version,
    ),
    Schedule(
        "C03",
        "An un-report that changes nothing",
        "Each un-report changes the Node, also when the volume is not listed (R4).",
        InstancesScene,
        instances.late_report,
        "an un-report of what is not listed leaves the Node as it is",
        rules_off.leaves_the_node_as_it_is,
    ),
    Schedule(
        "C04",
        "A write for another volume",
        "Each write of the list carries the version of the Node that it was computed from (R3).",
        InstancesScene,
        instances.write_for_another_volume,
        "the list is written without the version that it was computed from",
        rules_off.writes_the_list_without_its_version,
    ),
    Schedule(
        "C05",
        "The agent publishes before it has reconstructed",
        "Before its first status write, an agent learns from the mount table what is mounted.",
        AgentScene,
        agents.restarted_agent,
        "the agent writes its status first",
        lambda patch: patch.setattr(agents, "speaks_first", True),
    ),
    Schedule(
        "C06",
        "A late write of the agent",
        "Each status write of an agent carries the version of its Node, and changes the Node.",
        AgentScene,
        agents.late_status,
        "a status write carries no version",
        agents.writes_status_without_version,
    ),
    Schedule(
        "C07",
        "A force detach judged on an earlier read",
        "Only the un-report's answer is judged.",
        InstancesScene,
        instances.judged_too_early,
        "what was read before the un-report is judged",
        rules_off.judges_an_earlier_read,
    ),
    Schedule(
        "C08",
        "Evidence about another boot",
        "A fence's evidence counts for the boot that the un-report's answer shows.",
        InstancesScene,
        instances.another_boot,
        "evidence counts for the uid alone",
        lambda patch: patch.setattr(release, "evidence_holds", lambda e, node, uid: e.node_uid == uid),
    ),
    Schedule(
        "C09",
        "Old evidence about an absent Node",
        "Of an absent Node, only a fence counts that was begun after the absence was read.",
        InstancesScene,
        instances.absent_node,
        "evidence counts for the uid alone",
        lambda patch: patch.setattr(release, "evidence_holds", lambda e, node, uid: e.node_uid == uid),
    ),
    Schedule(
        "C10",
        "Ready is False",
        "The out-of-service taint releases a volume only while Ready is Unknown: False is a live agent's word.",
        InstancesScene,
        instances.not_ready,
        "any node that is not ready is taken for silent",
        rules_off.judges_not_ready_as_silent,
    ),
    Schedule(
        "C11",
        "A taint that was left over",
        "A taint under which the node has reported is spent.",
        InstancesScene,
        instances.left_over_taint,
        "a taint is never spent",
        lambda patch: patch.setattr("mooring.volumes.out_of_service.spent", lambda node: False),
    ),
    Schedule(
        "C12",
        "The Node of a running machine is deleted",
        "The deletion of a Node object releases nothing (--node-deletion-confirms-death=never, or pods).",
        InstancesScene,
        instances.wrong_deletion,
        "the deletion counts as an operator's statement (--node-deletion-confirms-death=all)",
        lambda patch: patch.setattr(InstancesScene, "trusts_deletion", True),
    ),
    Schedule(
        "C12b",
        "A statement that outlives the silence",
        "A statement names uid, boot and last report, and is void once the node has reported again.",
        InstancesScene,
        instances.stale_statement,
        "a statement counts for the uid alone",
        lambda patch: patch.setattr(
            release, "statement_holds", lambda statement, node, uid: statement.node_uid == uid
        ),
    ),
    Schedule(
        "C13",
        "A Node that is registered anew",
        "A Node of another uid counts as using the volume, until its agent has looked at its mounts and reported.",
        InstancesScene,
        instances.registered_anew,
        "any Node of that name may speak",
        rules_off.lets_any_node_of_that_name_speak,
    ),
    Schedule(
        "C14",
        "A late creation under an older epoch",
        "Swap the lock, list, create; and a VolumeAttachment of another epoch than the lock's is void.",
        InstancesScene,
        locked.late_creation,
        "epochs are not compared",
        rules_off.does_not_compare_epochs,
    ),
    Schedule(
        "C15a",
        "A late attach",
        "The finalizer stays until no request that the attacher sent can take effect any more.",
        AttacherScene,
        attacher.late_attach,
        "nothing counts as outstanding",
        attacher.takes_nothing_for_outstanding,
    ),
    Schedule(
        "C15b",
        "A late detach",
        "The finalizer stays until no request that the attacher sent can take effect any more.",
        AttacherScene,
        attacher.late_detach,
        "nothing counts as outstanding",
        attacher.takes_nothing_for_outstanding,
    ),
    Schedule(
        "C16a",
        "Attached again after a force detach",
        "A node from which a volume was taken by force is closed for it, until it shows that nothing is mounted.",
        InstancesScene,
        locked.attached_again,
        "the node is not closed",
        lambda patch: patch.setattr(locks, "may_open", lambda closed, node, volume: True),
    ),
    Schedule(
        "C16b",
        "A late creation after a force detach",
        "A release by force advances the epoch, so what was granted before it is void.",
        InstancesScene,
        locked.late_creation_after_force,
        "a release by force keeps the epoch",
        rules_off.keeps_the_epoch,
    ),
)
