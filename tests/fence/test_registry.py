"""The mechanisms that are installed."""

from __future__ import annotations

from mooring.fence.registry import load


def test_all_of_ours_are_installed_and_can_be_loaded():
    mechanisms = load()
    assert mechanisms.broken == {}
    assert {"agent", "fabric-agent", "ipmi", "redfish", "power-strip", "switch-port", "virsh"} <= set(
        mechanisms.by_kind
    )
    assert all(each.summary for each in mechanisms.by_kind.values())
