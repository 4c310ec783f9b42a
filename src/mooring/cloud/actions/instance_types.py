"""The facts of each instance type, above all how many volumes can be attached.

The facts are EC2's own answers to DescribeInstanceTypes (`scripts/instance_types.py` gathers them).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Literal, NamedTuple

import msgspec


class InstanceType(NamedTuple):
    """Memory in MiB. `limit` counts all attached volumes, also the root volume."""

    vcpus: int
    memory: int
    architecture: str
    hypervisor: str
    """"nitro" or "xen"; "" of bare metal (which is Nitro, too)."""
    limit: int
    kind: Literal["shared", "dedicated"]
    """Whether network interfaces beyond the first count against `limit` ("shared")."""
    cards: int
    interfaces: int
    """Most network interfaces."""

    @property
    def bare_metal(self) -> bool:
        """Whether there is no hypervisor."""
        return not self.hypervisor

    @property
    def nitro(self) -> bool:
        """Whether it is built on the Nitro system."""
        return self.hypervisor != "xen"

    def room(self, interfaces: int) -> int:
        """The number of volumes that can be attached to an instance with so many network interfaces."""
        return max(1, self.limit - (max(0, interfaces - 1) if self.kind == "shared" else 0))


@cache
def instance_types() -> Mapping[str, InstanceType]:
    """All types by name."""
    content = resources.files("mooring.cloud.actions").joinpath("instance_types.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, InstanceType])
