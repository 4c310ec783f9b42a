"""Keys of queues that hold more than one kind of object."""

from __future__ import annotations

from mooring.kube.keys import ClaimKey, PodKey


def test_keys_of_different_kinds_are_never_equal_and_equal_keys_are_one_key():
    assert len({ClaimKey("default/a"), PodKey("default/a"), ClaimKey("default/a")}) == 2


def test_a_key_is_logged_with_its_kind():
    assert str(ClaimKey("default/a")) == "claim:default/a"
