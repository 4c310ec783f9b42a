"""A StorageClass of a former in-tree provisioner, as its CSI driver reads it.

The provisioner's name stays, except for Portworx, as in csi-translation-lib, whose answers the tests play.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from mooring.kube.objects import StorageClass, TopologySelectorTerm
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.migration.azure import AZURE_DISK
from mooring.volumes.migration.kinds import BY_PROVISIONER, PORTWORX
from mooring.volumes.migration.topology import BETA, PRESENT

_ZONES = ("zone", "zones")
_FAULT_DOMAIN = re.compile(r"[0-9]+")


def class_to_csi(storage_class: StorageClass) -> StorageClass:
    """Returns the class with the driver's parameters and topology keys; one of another provisioner as it is.
    Raises InvalidSpec for a class that names zones twice, in its parameters and its topologies."""
    kind = BY_PROVISIONER.get(storage_class.provisioner)
    if kind is None:
        return storage_class
    parameters, zones = storage_class.parameters, None
    if kind.zone_parameters:
        parameters, zones = _split(parameters)
    if zones is not None and storage_class.allowed_topologies:
        raise InvalidSpec(
            f"StorageClass {storage_class.name} names zones in its parameters and in allowedTopologies: keep one"
        )
    key = kind.class_zone_key
    terms = storage_class.allowed_topologies if zones is None else (_in_zones(zones),)
    topologies = tuple(_keyed(term, key) for term in terms) if key else terms
    if kind.driver == AZURE_DISK:
        topologies = tuple(_without_fault_domains(term, key) for term in topologies)
    return replace(
        storage_class,
        provisioner=PORTWORX if kind.driver == PORTWORX else storage_class.provisioner,
        parameters=kind.class_parameters(parameters),
        allowed_topologies=topologies,
    )


def _split(parameters: Mapping[str, str]) -> tuple[dict[str, str], tuple[str, ...] | None]:
    """Returns the other parameters, and the zones that are among them; None if none are."""
    named = {key.lower(): value for key, value in parameters.items() if key.lower() in _ZONES}
    rest = {key: value for key, value in parameters.items() if key.lower() not in _ZONES}
    if not named:
        return rest, None
    return rest, tuple(named["zones"].split(",")) if "zones" in named else (named["zone"],)


def _in_zones(zones: tuple[str, ...]) -> TopologySelectorTerm:
    return TopologySelectorTerm(match_label_expressions=({"key": PRESENT.zone, "values": [*zones]},))


def _keyed(term: TopologySelectorTerm, key: str) -> TopologySelectorTerm:
    """The zones by the driver's key; all else as it is."""
    return TopologySelectorTerm(
        match_label_expressions=tuple(
            {**each, "key": key} if each.get("key") in (PRESENT.zone, BETA.zone) else each
            for each in term.match_label_expressions
        )
    )


def _without_fault_domains(term: TopologySelectorTerm, key: str) -> TopologySelectorTerm:
    """Azure's regions without zones have numbers in the place of zones, and its driver has the empty zone."""

    def cleared(each: dict[str, Any]) -> dict[str, Any]:
        values = ["" if _FAULT_DOMAIN.fullmatch(value) else value for value in each.get("values") or ()]
        return {**each, "values": values} if each.get("key") == key else each

    return TopologySelectorTerm(match_label_expressions=tuple(map(cleared, term.match_label_expressions)))
