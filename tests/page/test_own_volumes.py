"""Volumes that pods define themselves have rows: on their pod's node, with their attachments."""

from __future__ import annotations

import msgspec
import page_cluster as made
import pytest
from page_cluster import model, replace, settle
from tests.page.test_world import play

from mooring.kube.objects import Pod
from mooring.page.life import volume_life
from mooring.page.model import Model
from mooring.page.own_volumes import OWN, own_volumes
from mooring.page.rows import own_row
from mooring.page.truth import Seen

SHARE, DISK = "own default/p/share", "own default/p/disk"


def row(page: Model, key: str) -> dict[str, object]:
    return page.tables["volumes"][key]


def ended(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, phase="Succeeded"))


def test_a_share_that_a_pod_mounts_itself_is_on_the_pods_node():
    page = settle(model(), made.node("n"), made.pod("p", on="n", own=(made.NFS,)))
    on = [{"node": "n", "state": "used"}]
    assert row(page, SHARE) == {"phase": "used", "driver": "nfs", "on": on, "pods": ["default/p"]}
    assert page.tables["pods"]["default/p"]["volumes"] == [SHARE]


def test_what_a_pod_keeps_on_its_node_has_no_row():
    page = settle(model(), made.node("n"), made.pod("p", on="n", own=(made.LOCAL,)))
    assert not page.tables["volumes"]
    assert "volumes" not in page.tables["pods"]["default/p"]


def test_it_is_awaited_until_its_pod_has_a_node():
    pod = made.pod("p", runs=False, own=(made.NFS,))
    page = settle(model(), made.node("n"), pod)
    assert row(page, SHARE)["phase"] == "awaited"
    replace(page, pod, made.pod("p", on="n", own=(made.NFS,)))
    assert row(page, SHARE)["phase"] == "used"


def test_one_that_is_attached_follows_its_attachment():
    page = settle(model(), made.node("n"), made.pod("p", on="n", own=(made.EBS,)))
    assert row(page, DISK)["phase"] == "awaited"
    replace(page, None, made.own_record("n", attached=False))  # type: ignore[arg-type]
    assert row(page, DISK)["phase"] == "attaching"
    replace(page, made.own_record("n", attached=False), made.own_record("n"))
    assert (row(page, DISK)["phase"], row(page, DISK)["driver"]) == ("attached", "ebs.csi.aws.com")


def test_it_comes_into_use_when_its_node_says_so():
    page = settle(model(), made.node("n"), made.pod("p", on="n", own=(made.EBS,)), made.own_record("n"))
    using = made.node("n", version=2)
    name = page.world.own_unique("default/p/disk")
    using = msgspec.structs.replace(
        using, status=msgspec.structs.replace(using.status, volumes_in_use=(name,))
    )
    replace(page, page.world.nodes["n"], using)
    assert row(page, DISK)["phase"] == "in-use"


def test_its_truth_is_asked_by_its_storages_name_and_shown():
    pod = made.pod("p", on="n", own=(made.EBS, made.NFS))
    page = settle(model(), made.node("n"), pod, made.own_record("n"))
    assert page.handles() == {DISK: "vol-1"}
    page.see(Seen(nodes={"n": "on"}, volumes={DISK: {"m": "attached"}}))
    page.flush()
    assert row(page, DISK)["true"] == {"m": "attached"}
    assert "attached to m, and nothing says so" in str(row(page, DISK)["differs"])


def test_what_is_true_of_its_node_is_true_of_it():
    pod = made.pod("p", on="n", own=(made.EBS,))
    page = settle(model(), made.node("n"), pod, made.own_record("n"))
    for power in ("on", "off"):
        page.see(Seen(nodes={"n": power}, volumes={DISK: {"n": "mounted"}}))
        page.flush()
    assert row(page, DISK)["true"] == {"n": "attached, no power"}


def test_its_row_goes_with_its_pod():
    pod = made.pod("p", on="n", own=(made.NFS,))
    page = settle(model(), made.node("n"), pod)
    replace(page, pod, None)
    assert not page.tables["volumes"]


def test_of_a_pod_that_has_ended_only_what_is_still_attached_is_shown():
    pod = made.pod("p", on="n", own=(made.NFS, made.EBS))
    page = settle(model(), made.node("n"), pod, made.own_record("n"))
    replace(page, pod, ended(pod))
    assert list(page.tables["volumes"]) == [DISK]
    replace(page, made.own_record("n"), None)
    assert not page.tables["volumes"]


def test_its_life_begins_with_its_pod_and_not_with_a_claim():
    page = settle(
        model(), made.node("n"), made.pod("p", on="n", own=(made.NFS, made.EBS)), made.own_record("n")
    )
    share, disk = volume_life(SHARE, page), volume_life(DISK, page)
    assert share is not None and disk is not None
    assert [each["what"] for each in share["milestones"]] == ["wanted", "mounted", "running"]
    assert [each["what"] for each in disk["milestones"]] == ["wanted", "attached", "mounted", "running"]
    assert volume_life("own default/p/nothing", page) is None


@pytest.mark.parametrize("seed", range(20))
def test_after_any_changes_each_row_is_what_it_would_be_if_it_were_made_anew(seed: int):
    page = play(seed, 80)
    every = [key for pod in page.world.pods.values() for key in own_volumes(pod)]
    anew = {f"{OWN}{key}": own_row(key, page.world) for key in every}
    shown = {key: row for key, row in page.tables["volumes"].items() if key.startswith(OWN)}
    assert shown == {key: row for key, row in anew.items() if row is not None}
