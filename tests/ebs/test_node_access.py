"""What a target shows already must have the access that is asked for. The mount table is given: no root."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mooring.csi.errors import Code, CsiError
from mooring.ebs.node_service import node
from mooring.mounts.interface import Mount


def look(monkeypatch: pytest.MonkeyPatch, options: set[str], *, read_only: bool) -> None:
    mount = Mount(1, 0, (259, 1), "/", "/target", frozenset(options), "ext4", "/dev/nvme1n1")

    async def there(*given: Any) -> Mount:
        return mount

    monkeypatch.setattr(node, "mount_at_path", there)
    monkeypatch.setattr(node, "mount_of_device", there)
    nothing: Any = None
    service = node.EbsNode(nothing, nothing, nothing)
    asyncio.run(service._check_target("/target", "/dev/nvme1n1", read_only))  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(("options", "read_only"), [({"rw", "noatime"}, False), ({"ro", "noatime"}, True)])
def test_a_target_that_shows_the_volume_as_asked_for_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, options: set[str], read_only: bool
):
    look(monkeypatch, options, read_only=read_only)


@pytest.mark.parametrize(("options", "read_only"), [({"rw"}, True), ({"ro"}, False)])
def test_a_target_that_shows_the_volume_with_another_access_is_refused(
    monkeypatch: pytest.MonkeyPatch, options: set[str], read_only: bool
):
    with pytest.raises(CsiError) as refused:
        look(monkeypatch, options, read_only=read_only)
    assert refused.value.code is Code.ALREADY_EXISTS
