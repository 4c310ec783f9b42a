"""Mechanisms of the origin documents, each switched off: a pytest plugin (`-p switched_off`, MECHANISM=name).

`MECHANISMS` maps a name to what is put in the mechanism's place, and to the test that `docs/origins.md` names
for it. That test has to fail then (`tests/contracts/test_origin_mutants.py`).
"""

from __future__ import annotations

import importlib
import os
import sys
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import Phase, settings


class Mechanism(NamedTuple):
    """`target` is "module:attribute", below `mooring`; `instead` makes its replacement from the original."""

    target: str
    instead: Callable[[Any], Any]
    test: str


def always(value: Any) -> Callable[[Any], Any]:
    """A function that answers the same, whatever it is asked."""
    return lambda original: lambda *args, **kwargs: value


def value(other: Any) -> Callable[[Any], Any]:
    """Another constant."""
    return lambda original: other


def answering(value: Any) -> Callable[[Any], Any]:
    """A coroutine function that answers the same."""

    async def answer(*args: Any, **kwargs: Any) -> Any:
        return value

    return lambda original: answer


_CONTROLLERS, _NODE, _EBS = "tests/controllers", "tests/node", "tests/ebs"
_COUNTEREXAMPLES = "tests/controllers/attachdetach/test_counterexamples.py"
MECHANISMS: dict[str, Mechanism] = {
    # A. the attach/detach controller
    "exclusive volumes have one node": Mechanism(
        "volumes.exclusivity:is_multi_attach_allowed",
        always(True),
        "tests/volumes/test_exclusivity.py::test_access_modes_decide_whether_several_nodes_may_attach",
    ),
    "a failed operation waits for its backoff": Mechanism(
        "kube.workqueue:WorkQueue.add_backoff",
        lambda original: lambda self, key, *rest: self.add(key),
        "tests/kube/test_workqueue.py::test_backoff_doubles_from_half_a_second_to_122_seconds_until_it_is_forgotten",
    ),
    "what the storage has lost is noticed": Mechanism(
        "controllers.attacher.verification:correction",
        always({}),
        f"{_CONTROLLERS}/attacher/test_controller.py::test_what_the_storage_has_lost_is_attached_again",
    ),
    "a request that may still take effect is waited for": Mechanism(
        "controllers.attacher.requests:outstanding_for",
        always(0.0),
        f"{_CONTROLLERS}/attacher/test_requests.py::test_while_an_attach_may_come_late_nobody_else_may_have_the_volume",
    ),
    "a mount waits until it is attached": Mechanism(
        "node.volumes.handshake:_problem",
        always(""),
        f"{_NODE}/test_volumes.py::test_nothing_is_mounted_under_an_attachment_that_is_not_fully_there",
    ),
    "pods that have ended want nothing": Mechanism(
        "kube.objects.pods:Pod.finished",
        lambda original: property(lambda self: False),
        f"{_CONTROLLERS}/attachdetach/test_decide.py::test_pods_that_have_ended_want_nothing",
    ),
    "of a volume without attaching nothing is attached": Mechanism(
        "volumes.plugin_manager:PluginManager.find_attachable_plugin_by_spec",
        lambda original: lambda self, spec: self.find_plugin_by_spec(spec),
        "tests/volumes/test_plugin_manager.py::"
        "test_an_attachable_plugin_is_found_unless_this_volume_needs_no_attaching",
    ),
    # B. the volume framework
    "namespaces of bundled plugins are reserved": Mechanism(
        "volumes.plugin_manager:RESERVED",
        value(()),
        "tests/volumes/test_plugin_manager.py::test_the_namespaces_of_bundled_plugins_are_reserved",
    ),
    "volumes are given to the pod's group": Mechanism(
        "volumes.ownership:give_to_group", always(None), "tests/volumes/test_ownership.py"
    ),
    "a volume is one pod's only if that is its only mode": Mechanism(
        "volumes.exclusivity:is_one_pod_only",
        always(True),
        "tests/volumes/test_exclusivity.py::test_a_volume_is_one_pods_only_if_that_is_its_only_mode",
    ),
    # C. the field case study
    "waiting is told after two minutes": Mechanism(
        "node.volumes.pod_reports:WAIT_EVENT_S",
        value(1.0),
        f"{_NODE}/test_volumes.py::test_waiting_for_an_attach_is_told_after_two_minutes_and_not_before",
    ),
    "a node has a limit of volumes": Mechanism(
        "volumes.limits:exceeds_limit",
        always(False),
        "tests/cluster/in_process/test_attach_limits.py::test_pods_wait_until_a_node_has_room_for_their_volumes",
    ),
    # D. pod safety
    "grace periods only shrink": Mechanism(
        "node.pods.ending:shrink",
        lambda original: lambda begun, now, grace, extra=0.0: original(None, now, grace, extra),
        f"{_NODE}/test_pod_decide.py::test_grace_periods_only_shrink",
    ),
    "two seconds between SIGTERM and SIGKILL": Mechanism(
        "node.pods.ending:MINIMUM_GRACE_S",
        value(0.0),
        f"{_NODE}/test_pod_decide.py::test_between_sigterm_and_sigkill_lie_two_seconds_at_least",
    ),
    "a pre-stop hook comes first": Mechanism(
        "node.pods.ending:pre_stop",
        always(False),
        f"{_NODE}/test_probes.py::test_a_pre_stop_hook_comes_before_sigterm",
    ),
    "the pod garbage collector waits": Mechanism(
        "controllers.podgc.controller:QUARANTINE_S",
        value(0.0),
        f"{_CONTROLLERS}/podgc/test_controller.py::"
        "test_pods_of_a_node_that_is_gone_are_removed_after_forty_seconds_of_absence",
    ),
    "pods stay for as long as they tolerate": Mechanism(
        "controllers.nodelifecycle.decide:evict_after",
        always(0.0),
        f"{_CONTROLLERS}/nodelifecycle/test_decide.py::test_when_a_pod_must_go",
    ),
    "nodes that a volume's affinity allows": Mechanism(
        "volumes.topology:fits", always(True), "tests/volumes/test_topology.py"
    ),
    "a taint under which the node has reported is spent": Mechanism(
        "volumes.out_of_service:spent",
        always(False),
        f"{_COUNTEREXAMPLES}::test_c11_a_taint_under_which_the_node_has_reported_releases_nothing",
    ),
    "a taint counts on a silent node only": Mechanism(
        "volumes.out_of_service:out_of_service",
        lambda original: lambda node: bool(node.spec.taints),
        f"{_CONTROLLERS}/podgc/test_decide.py::test_when_an_out_of_service_taint_is_in_force",
    ),
    "a statement is void once the node reports": Mechanism(
        "controllers.attachdetach.release:statement_holds",
        always(True),
        f"{_COUNTEREXAMPLES}::test_c12b_a_statement_is_void_when_the_node_has_reported_again",
    ),
    "evidence names the boot": Mechanism(
        "controllers.attachdetach.release:evidence_holds",
        always(True),
        f"{_COUNTEREXAMPLES}::test_c8_evidence_about_another_boot_releases_nothing",
    ),
    "attachments of another epoch are void": Mechanism(
        "volumes.attachment_lock:is_current",
        always(True),
        f"{_COUNTEREXAMPLES}::test_c14_a_late_creation_under_an_older_epoch_is_told_to_nobody",
    ),
    "a node is closed after a force detach": Mechanism(
        "volumes.attachment_lock:may_open",
        always(True),
        f"{_COUNTEREXAMPLES}::test_c16_a_node_from_which_a_volume_was_taken_is_closed_for_it",
    ),
    "a mount under another attachment is stale": Mechanism(
        "node.volumes.handshake:is_stale",
        answering(False),
        f"{_NODE}/test_volumes.py::test_an_attachment_that_is_taken_away_ends_the_pods_and_the_mount",
    ),
    # E. the EBS CSI driver
    "a client token belongs to the name": Mechanism(
        "ebs.controller_service.provisioning:client_token",
        lambda original: lambda name, number=1: uuid.uuid4().hex,
        f"{_EBS}/test_crashes.py::test_two_controllers_at_once_make_one_volume_for_one_name",
    ),
    "a changed mind gives way": Mechanism(
        "ebs.controller_service.controller:GIVES_WAY",
        value({}),
        f"{_EBS}/test_crashes.py::test_publish_and_unpublish_cancel_each_other_at_any_moment_and_the_last_one_counts",
    ),
    "device names in use are not given": Mechanism(
        "ebs.controller_service.device_names:DeviceNames.give",
        lambda original: lambda self, *args, **kwargs: "/dev/xvdba",
        f"{_EBS}/test_device_names.py::test_after_a_restart_names_in_use_are_not_given",
    ),
    "an instance takes so many volumes": Mechanism(
        "ebs.node_service.volume_limits:max_volumes", always(1000), f"{_EBS}/test_limits.py"
    ),
    "a deadline ends the call, not the operation": Mechanism(
        "csi.driver.dispatch:_key",
        always(None),
        "tests/csi/driver/test_dispatch.py::test_a_deadline_ends_the_call_and_not_the_operation",
    ),
}


def owner_and_attribute(name: str) -> tuple[Any, str]:
    """Where the mechanism is: a module or class, and the attribute. Raises if it is not there."""
    module, _, attribute = MECHANISMS[name].target.partition(":")
    *path, last = attribute.split(".")
    owner: Any = importlib.import_module(f"mooring.{module}")
    for each in path:
        owner = getattr(owner, each)
    if last not in vars(owner):
        raise LookupError(f"{name}: {MECHANISMS[name].target} does not exist")
    return owner, last


def switch_off(name: str) -> None:
    """Puts the replacement in the mechanism's place, wherever a module has it by name."""
    mechanism = MECHANISMS[name]
    owner, last = owner_and_attribute(name)
    original = vars(owner)[last]
    replacement = mechanism.instead(original)
    setattr(owner, last, replacement)
    if not callable(original):
        return
    for known in [
        each for each in sys.modules.values() if getattr(each, "__name__", "").startswith("mooring.")
    ]:
        for key in [key for key, held in vars(known).items() if held is original]:
            setattr(known, key, replacement)


def pytest_configure() -> None:
    """Before any test module is imported. A property test need not find the smallest example."""
    settings.register_profile("fails at once", phases=(Phase.explicit, Phase.generate), database=None)
    settings.load_profile("fails at once")
    if name := os.environ.get("MECHANISM"):
        switch_off(name)
