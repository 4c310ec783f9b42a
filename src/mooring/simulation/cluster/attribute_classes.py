"""The VolumeAttributesClasses of a simulated cluster: what a user writes in each edition of one, for a disk
array and for the EBS driver.

Two editions of a class never ask for the same, nor do two classes: what a disk is like says which of them it
has.
"""

from __future__ import annotations

from collections.abc import Mapping

from mooring.kube.client import Client
from mooring.kube.objects import VolumeAttributesClass
from mooring.simulation.parts.disk_attributes import REFUSED
from mooring.simulation.parts.ebs_driver import DRIVER as EBS

FEASIBLE = ("bronze", "silver", "gold")
INFEASIBLE, MISSING = "refused", "missing"
"""A class that the storage refuses, and one that there is not."""


def parameters(name: str, edition: int, driver: str) -> Mapping[str, str]:
    """What a class asks for. Of a gp3 volume any throughput from 125 to 750 MiB/s can be chosen, however
    small it is (EBS User Guide: a quarter of a MiB/s for each of its 3000 IOPS)."""
    if name == INFEASIBLE:
        return {"troughput" if driver == EBS else REFUSED: "200"}
    if driver == EBS:
        return {"type": "gp3", "throughput": str(130 + 20 * FEASIBLE.index(name) + edition)}
    return {"grade": f"{name}-{edition}"}


def class_body(name: str, edition: int, driver: str) -> dict[str, object]:
    """A class in this edition."""
    asked = dict(parameters(name, edition, driver))
    return {"metadata": {"name": name}, "driverName": driver, "parameters": asked}


async def create_attribute_classes(api: Client, driver: str) -> None:
    """The first edition of each."""
    for name in (*FEASIBLE, INFEASIBLE):
        await api.create(VolumeAttributesClass, class_body(name, 0, driver))
