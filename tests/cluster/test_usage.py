"""How full volumes are, as a table."""

from __future__ import annotations

from mooring.cluster.tables import NO_NUMBER, Told
from mooring.cluster.usage import rows_of

GIB = 1 << 30


def test_each_volume_has_a_row_with_its_claim_and_its_share() -> None:
    figures = {"capacityBytes": 20 * GIB, "usedBytes": 5 * GIB + 1, "availableBytes": 15 * GIB - 1}
    volumes = [
        {"name": "data", "pvcRef": {"name": "data-web-0"}, **figures},
        {"name": "tmp", "capacityBytes": 0, "usedBytes": 0, "availableBytes": 0},
    ]
    pod = {"podRef": {"namespace": "default", "name": "web-0"}, "volume": volumes}
    assert list(rows_of({"node": {"nodeName": "node-1"}, "pods": [pod]})) == [
        (
            "data",
            "data-web-0",
            "default/web-0",
            "node-1",
            Told("20Gi", 20 * GIB),
            Told("5Gi", 5 * GIB + 1),
            Told("14Gi", 15 * GIB - 1),
            25,
        ),
        ("tmp", "-", "default/web-0", "node-1", Told("0", 0), Told("0", 0), Told("0", 0), NO_NUMBER),
    ]
