"""The facts of the API's own types, and the shape that they give to objects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.schema import facts
from mooring.apiserver.schema.facts import OPAQUE, SCALARS, message, message_of
from mooring.apiserver.schema.shapes import WrongShape, shaped

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
ALL = json.loads((Path(facts.__file__).parent / "api.json").read_text())


@pytest.mark.parametrize("name", ALL)
def test_every_field_has_a_type_that_is_known_and_a_number_of_its_own(name):
    own = message(name).own
    assert all(field.type in SCALARS | OPAQUE | ALL.keys() for field in own)
    assert len({field.number for field in own}) == len(own)


def test_fields_of_inline_messages_stand_in_their_parent():
    assert {"name", "csi", "persistentVolumeClaim"} <= message("core.v1.Volume").fields.keys()
    assert "volumeSource" not in message("core.v1.Volume").fields


def test_a_list_says_how_patches_and_applies_merge_it():
    ports = message("core.v1.Container").fields["ports"]
    assert (ports.merge_key, ports.list_keys) == ("containerPort", ("containerPort", "protocol"))
    assert message("core.v1.Container").fields["command"].merge_key is None
    assert message("meta.v1.ObjectMeta").fields["finalizers"].merge_key == ""


def test_kinds_are_found_by_their_group_and_options_under_any():
    assert message_of("storage.k8s.io", "v1", "CSINode") == "storage.v1.CSINode"
    assert message_of("policy", "v1", "DeleteOptions") == "meta.v1.DeleteOptions"
    assert message_of("example.com", "v1", "Widget") is None


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.sampled_from(["", "x", "1Gi"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["name", "spec", "containers", "metadata", "env", "x"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status", "x"]), anything))
def test_anything_gets_the_shape_of_a_pod_or_is_refused_and_a_shape_is_final(sent):
    try:
        made = shaped("core.v1.Pod", sent, [])
    except WrongShape:
        return
    again: list[str] = []
    assert shaped("core.v1.Pod", made, again) == made
    assert again == []


def test_a_zero_is_kept_where_go_writes_it_and_dropped_where_it_does_not():
    """Objects that mean the same are the same: a write of nothing is then seen to be one."""
    sent = {
        "containers": [{"image": "", "ports": [], "command": None}],
        "nodeSelector": {},
        "hostNetwork": False,
    }
    assert shaped("core.v1.PodSpec", sent, []) == {"containers": [{"name": "", "resources": {}}]}
    assert shaped("core.v1.PodSpec", {"activeDeadlineSeconds": 0, "securityContext": {}}, []) == {
        "activeDeadlineSeconds": 0, "securityContext": {},
    }  # fmt: skip


def test_zeroes_of_an_apply_are_meant():
    sent = {"nodeSelector": {}, "hostNetwork": False}
    assert shaped("core.v1.PodSpec", sent, [], zeroes=False) == sent


def test_a_write_that_adds_only_zeroes_changes_nothing(serve):
    async def story(api):
        before = await api.create(CONFIGMAPS, {"metadata": {"name": "a"}})
        after = await api.patch(f"{CONFIGMAPS}/a", {"data": {}, "metadata": {"labels": {}}})
        assert after == before

    serve(story)
