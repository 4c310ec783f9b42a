"""Dynamic resources (resource.k8s.io) and other kinds that are kept for others and have few rules of their own."""

from collections.abc import Mapping
from typing import ClassVar

from mooring.apiserver.defaults import Rules
from mooring.apiserver.dotted import text_at, value_at
from mooring.apiserver.errors import FieldError, Obj, required
from mooring.apiserver.strategy import IMMUTABLE, Strategy


class Stored(Strategy):
    """Kinds with a spec that counts generations."""

    counts_generations = True


class Claims(Strategy):
    """ResourceClaims: what is asked for never changes."""

    immutable: ClassVar[Mapping[str, str]] = {"spec": IMMUTABLE}


class ClaimTemplates(Strategy):
    """ResourceClaimTemplates."""

    immutable: ClassVar[Mapping[str, str]] = {"spec": IMMUTABLE}


class Slices(Strategy):
    """ResourceSlices: published by drivers, each for one node or for many."""

    counts_generations = True
    immutable: ClassVar[Mapping[str, str]] = {"spec.driver": IMMUTABLE, "spec.nodeName": IMMUTABLE}

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {path: text_at(obj, path) for path in ("spec.nodeName", "spec.driver")}


class StorageCapacities(Strategy):
    """CSIStorageCapacities: what they are about never changes."""

    immutable: ClassVar[Mapping[str, str]] = {"nodeTopology": IMMUTABLE, "storageClassName": IMMUTABLE}

    def validate(self, obj: Obj) -> list[FieldError]:
        return [] if text_at(obj, "storageClassName") else [required("storageClassName")]


class EndpointSlices(Strategy):
    """EndpointSlices."""

    counts_generations = True
    immutable: ClassVar[Mapping[str, str]] = {"addressType": IMMUTABLE}
    defaults: ClassVar[Rules] = {"ports[].name": "", "ports[].protocol": "TCP"}

    def validate(self, obj: Obj) -> list[FieldError]:
        return [] if value_at(obj, "addressType") else [required("addressType")]


class Endpoints(Strategy):
    """Endpoints."""

    defaults: ClassVar[Rules] = {"subsets[].ports[].protocol": "TCP"}
