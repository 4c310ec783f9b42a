"""Names that several parts, and upstream, must agree on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.volumes import names

WORD = st.text(st.characters(categories=("Ll", "Nd"), include_characters="-."), min_size=1)


def test_a_csi_volume_attachment_has_the_name_that_upstream_gives_it():
    """sha256 of handle, driver and node, without separators."""
    name = names.volume_attachment_name(names.CSI_PLUGIN, "ebs.csi.aws.com^vol-0a1b", "node-1")
    assert name == "csi-09b81a11caec5b56499d3bc9dd4a9297d74bf05c0c4755fa4c6647338d8ca498"


def test_a_plugin_volume_attachment_has_our_own_prefix():
    assert names.volume_attachment_name("mooring.dev/disk", "d1", "n1").startswith("mooring-")


@given(WORD, WORD, WORD, WORD)
def test_volume_attachments_of_different_volumes_or_nodes_have_different_names(
    a: str, b: str, c: str, d: str
):
    one, other = (names.volume_attachment_name("mooring.dev/disk", *pair) for pair in ((a, b), (c, d)))
    assert (one == other) == ((a, b) == (c, d))


@given(WORD, WORD, st.text(min_size=1))
def test_a_unique_name_can_be_taken_apart_whatever_the_volume_name_holds(
    namespace: str, plugin: str, volume: str
):
    unique = names.attachable_volume_name(f"{namespace}/{plugin}", volume)
    assert names.split_volume_name(unique) == (f"{namespace}/{plugin}", volume)


@pytest.mark.parametrize("name", ["", "disk", "mooring.dev/disk", "mooring.dev/disk/", "/disk/d1"])
def test_what_is_no_unique_name_is_refused(name: str):
    with pytest.raises(ValueError, match="unique volume name"):
        names.split_volume_name(name)


def test_each_pod_has_its_own_name_for_a_volume_that_is_not_shared():
    assert (
        names.pod_volume_name("kubernetes.io/empty-dir", "uid-1", "cache")
        == "kubernetes.io/empty-dir/uid-1-cache"
    )


def test_a_csi_volume_is_attached_by_its_driver_and_a_plugin_volume_by_us():
    assert names.attacher_name(names.CSI_PLUGIN, names.csi_volume_name("d.example", "h")) == "d.example"
    assert names.attacher_name("mooring.dev/disk", "d1") == "plugins.mooring.dev"


@given(WORD, st.text(min_size=1))
def test_a_csi_handle_may_hold_anything(driver: str, handle: str):
    assert names.split_csi_volume_name(names.csi_volume_name(driver, handle)) == (driver, handle)


@pytest.mark.parametrize("name", ["", "driver", "driver^", "^handle"])
def test_what_is_no_csi_volume_name_is_refused(name: str):
    with pytest.raises(ValueError, match="CSI volume name"):
        names.split_csi_volume_name(name)


@given(WORD, WORD)
def test_a_plugins_name_survives_being_a_directory(namespace: str, plugin: str):
    name = f"{namespace}/{plugin}"
    assert "/" not in names.escape_plugin_name(name)
    assert names.unescape_plugin_name(names.escape_plugin_name(name)) == name


@given(st.text())
def test_an_inline_volume_has_a_name_that_is_a_valid_object_name(unique: str):
    name = names.inline_persistent_volume_name(unique)
    assert name.startswith("inline-")
    assert len(name) <= 253
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-")
