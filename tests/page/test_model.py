"""From objects to rows, to changes, and to the state of a moment ago."""

from __future__ import annotations

import copy

import page_cluster as made
import pytest
from page_cluster import NOW_MS, model, replace, settle
from tests.page.test_world import play

from mooring.page.model import Model
from mooring.page.truth import Seen
from mooring.why.cause import Cause
from mooring.why.explain import explain
from mooring.why.snapshot import Snapshot


def volumes(page: Model) -> dict[str, str]:
    return {key: row["phase"] for key, row in page.tables["volumes"].items()}


def test_a_claim_without_a_volume_has_a_row_until_its_volume_has_one():
    page = settle(model(), made.claim("c", phase="Pending"))
    assert volumes(page) == {"claim default/c": "pending"}
    page.apply(None, made.volume("v", claim="c"))
    replace(page, made.claim("c", phase="Pending"), made.claim("c", volume="v"))
    assert volumes(page) == {"v": "bound"}


@pytest.mark.parametrize(
    ("record", "in_use", "phase"),
    [
        (made.attachment("v", "n", attached=False), False, "attaching"),
        (made.attachment("v", "n"), False, "attached"),
        (made.attachment("v", "n"), True, "in-use"),
        (made.attachment("v", "n", deleting=True), True, "detaching"),
    ],
)
def test_the_phase_of_a_volume_follows_its_attachment(record: object, in_use: bool, phase: str):
    there = made.node("n", in_use=("v",) if in_use else ())
    page = settle(model(), there, made.volume("v"), made.claim("v"), record)  # type: ignore[arg-type]
    assert volumes(page) == {"v": phase}
    assert page.tables["volumes"]["v"]["on"] == [{"node": "n", "state": phase}]


def test_a_volume_that_nothing_attaches_is_on_the_nodes_of_its_pods():
    import msgspec

    from mooring.kube.objects import HostPathVolumeSource

    plain = made.volume("v")
    spec = msgspec.structs.replace(plain.spec, csi=None, host_path=HostPathVolumeSource(path="/d"))
    pod = made.pod("p", on="n", claims=("v",))
    page = settle(model(), made.node("n"), msgspec.structs.replace(plain, spec=spec), made.claim("v"), pod)
    assert page.tables["volumes"]["v"]["on"] == [{"node": "n", "state": "used"}]


def test_a_node_that_is_gone_is_shown_while_something_names_it():
    page = settle(model(), made.volume("v"), made.attachment("v", "n"))
    assert page.tables["nodes"]["n"]["phase"] == "gone"
    replace(page, made.attachment("v", "n"), None)
    assert "n" not in page.tables["nodes"]


def test_a_heartbeat_changes_no_row():
    page = settle(model(), *made.cluster(1, 1))
    page.apply(page.world.nodes["node-0"], made.node("node-0", in_use=("v-0-0",), version=2))
    assert page.flush() is None


def test_a_pod_on_a_silent_node_is_stuck_with_the_reason_of_why_and_the_command_to_copy():
    page = settle(model(), *made.cluster(1, 1))
    assert page.tables["stuck"] == {}
    silent = made.node("node-0", ready="Unknown", in_use=("v-0-0",))
    replace(page, page.world.nodes["node-0"], silent)
    row = page.tables["stuck"]["pod/default/p-v-0-0"]
    assert [link["code"] for link in row["chain"]] == ["NodeProblem", "NodeNotAnswering"]
    assert row["chain"][1]["commands"] == ["mooring node confirm-dead node-0"]
    assert row["chain"][1]["more"] == "mooring reason NodeNotAnswering"
    assert row["of"] == ["pods", "default/p-v-0-0"]


def test_what_ends_is_stuck_no_more_and_what_is_gone_neither():
    page = settle(model(), *made.cluster(1, 1))
    silent = made.node("node-0", ready="Unknown", in_use=("v-0-0",))
    replace(page, page.world.nodes["node-0"], silent)
    replace(page, silent, made.node("node-0", in_use=("v-0-0",)))
    assert page.tables["stuck"] == {}
    replace(page, page.world.nodes["node-0"], silent)
    pod = page.world.pods["default/p-v-0-0"]
    replace(page, pod, None)
    assert "pod/default/p-v-0-0" not in page.tables["stuck"]


def test_explaining_stops_when_it_has_been_long_enough_and_goes_on_later():
    page = model()
    for each in made.cluster(2, 3):
        page.apply(None, each)
    page.flush()
    page.explain(lambda: True)
    assert page.busy
    page.explain(lambda: False)
    assert not page.busy


@pytest.mark.parametrize("seed", range(10))
def test_the_present_with_the_later_changes_undone_is_the_past(seed: int):
    page = model()
    settle(page, *made.cluster(2, 2))
    page.record()
    was = copy.deepcopy(page.tables)
    for each in play(seed, 40).world.pods.values():
        page.apply(None, each)
        page.flush()
        page.explain(lambda: False)
    for batch in reversed(list(page.history)):
        for change in reversed(batch.changes):
            table = page.tables[change.table]
            assert table.get(change.key) == change.after
            if change.before is None:
                table.pop(change.key)
            else:
                table[change.key] = change.before
    assert page.tables == was


def test_how_it_began_is_not_history():
    page = settle(model(), *made.cluster(1, 1))
    page.record()
    assert list(page.history) == []
    replace(page, page.world.nodes["node-0"], made.node("node-0", in_use=("v-0-0",), unschedulable=True))
    changed = {change.key for batch in page.history for change in batch.changes}
    assert changed == {"node-0", "node/node-0"}


def test_truth_that_differs_is_a_change_of_the_row():
    page = settle(model(), *made.cluster(1, 1))
    page.see(Seen({"node-0": "on"}, {"v-0-0": {"node-0": "mounted"}}))
    page.flush()
    assert page.tables["volumes"]["v-0-0"]["true"] == {"node-0": "mounted"}
    assert "differs" not in page.tables["volumes"]["v-0-0"]
    page.see(Seen({"node-0": "off"}, {"v-0-0": {"node-0": "attached"}}))
    page.flush()
    assert page.tables["nodes"]["node-0"]["differs"] == "its machine has no power"
    assert page.tables["volumes"]["v-0-0"]["differs"] == "node-0 has no power: nothing is mounted there"


def test_a_trouble_of_a_machine_is_a_change_of_its_row():
    page = settle(model(), *made.cluster(1, 1))
    page.see(Seen({"node-0": "on"}, troubles={"node-0": "frozen"}))
    page.flush()
    page.see(Seen({"node-0": "on"}))
    page.flush()
    assert "trouble" not in page.tables["nodes"]["node-0"]


def test_the_same_truth_again_touches_nothing():
    page = settle(model(), *made.cluster(1, 1))
    seen = Seen({"node-0": "on"}, {"v-0-0": {"node-0": "mounted"}})
    page.see(seen)
    page.flush()
    page.explain(lambda: False)
    page.see(seen)
    assert not page.busy


def test_a_name_that_would_turn_or_hide_text_is_spelled_out():
    page = settle(model(), made.claim("a\u202eb\x1b", phase="Pending"))
    assert list(page.tables["volumes"]) == ["claim default/a\\u202eb\\x1b"]


def test_a_message_is_cut():
    pod = made.pod("p", on="n", runs=False)
    page = settle(model(), made.node("n"), pod, made.event(pod, "FailedMount", "x" * 100_000))
    (row,) = page.tables["stuck"].values()
    assert len(row["chain"][0]["message"]) == 1200


def test_what_cannot_be_explained_says_so_and_the_rest_is_explained(monkeypatch: pytest.MonkeyPatch):
    original = explain

    def broken(target: str, namespace: str, known: Snapshot) -> Cause:
        if target == "pvc/a":
            raise ZeroDivisionError("odd")
        return original(target, namespace, known)

    monkeypatch.setattr("mooring.page.model.explain", broken)
    page = settle(model(), made.claim("a", phase="Lost"), made.claim("b", phase="Lost"))
    codes = {key: row["chain"][0]["code"] for key, row in page.tables["stuck"].items()}
    assert codes["pvc/default/a"] == "NotExplained"
    assert codes["pvc/default/b"] == "ProvisioningFailed"


def test_the_state_says_since_when_the_page_knows_it():
    page = settle(model(), made.claim("c", phase="Lost"))
    assert page.tables["stuck"]["pvc/default/c"]["seen"] == NOW_MS
