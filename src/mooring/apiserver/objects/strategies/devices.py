"""Dynamic resources (resource.k8s.io) and other kinds that are kept for others and have few rules of their
own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from mooring.apiserver.errors import FieldError, Obj, invalid_value
from mooring.apiserver.objects.defaults import Rules, under
from mooring.apiserver.objects.strategies.pods import POD_SPEC
from mooring.apiserver.objects.strategy import IMMUTABLE, Strategy
from mooring.apiserver.objects.validation import devices as valid
from mooring.apiserver.objects.validation import pods, services, storage
from mooring.apiserver.objects.validation.checks import at
from mooring.apiserver.objects.validation.formats import strict_ip_error
from mooring.apiserver.values.dotted import list_at, object_at, objects_at, text_at


class Stored(Strategy):
    """Kinds with a spec that counts generations."""

    counts_generations = True


class _Demands(Strategy):
    """What asks for devices: one of each, unless it says how many."""

    def demands(self, obj: Obj) -> list[Obj]:
        """The requests of an object."""
        return objects_at(obj, "spec.devices.requests")

    def default(self, obj: Obj) -> None:
        for request in self.demands(obj):
            for each in (object_at(request, "exactly"), *objects_at(request, "firstAvailable")):
                if not each:
                    continue
                for toleration in objects_at(each, "tolerations"):
                    toleration["operator"] = toleration.get("operator") or "Exists"
                each["allocationMode"] = each.get("allocationMode") or "ExactCount"
                if each["allocationMode"] == "ExactCount":
                    each["count"] = each.get("count") or 1


class Claims(_Demands):
    """ResourceClaims: what is asked for never changes."""

    new_rules = (valid.claim,)
    immutable: ClassVar[Mapping[str, str]] = {"spec": IMMUTABLE}


class ClaimTemplates(_Demands):
    """ResourceClaimTemplates."""

    rules = (valid.claim_template,)

    def demands(self, obj: Obj) -> list[Obj]:
        return objects_at(obj, "spec.spec.devices.requests")

    immutable: ClassVar[Mapping[str, str]] = {"spec": IMMUTABLE}


class DeviceClasses(Strategy):
    """DeviceClasses."""

    counts_generations = True
    judges_base = False
    any_base = True
    rules = (valid.device_class,)


_LISTS = ("bools", "ints", "strings", "versions")


class Slices(Strategy):
    """ResourceSlices: published by drivers, each for one node or for many."""

    rules = (valid.resource_slice,)
    judges_base = False
    counts_generations = True
    immutable: ClassVar[Mapping[str, str]] = {
        "spec.pool.name": IMMUTABLE,
        "spec.driver": IMMUTABLE,
        "spec.nodeName": IMMUTABLE,
    }

    def default(self, obj: Obj) -> None:
        # Attributes with several values (KEP-5491) are not offered: they are dropped.
        for device in objects_at(obj, "spec.devices"):
            for attribute in object_at(device, "attributes").values():
                for field in _LISTS:
                    attribute.pop(field, None)

    def fields(self, obj: Obj) -> Mapping[str, str]:
        return {path: text_at(obj, path) for path in ("spec.nodeName", "spec.driver")}


class StorageCapacities(Strategy):
    """CSIStorageCapacities: what they are about never changes."""

    immutable: ClassVar[Mapping[str, str]] = {"nodeTopology": IMMUTABLE, "storageClassName": IMMUTABLE}

    rules = (storage.capacity,)


class EndpointSlices(Strategy):
    """EndpointSlices."""

    counts_generations = True
    immutable: ClassVar[Mapping[str, str]] = {"addressType": IMMUTABLE}
    defaults: ClassVar[Rules] = {"ports[].name": "", "ports[].protocol": "TCP"}

    rules = (services.endpoint_slice,)


class Endpoints(Strategy):
    """Endpoints."""

    rules = (services.endpoints,)
    defaults: ClassVar[Rules] = {"subsets[].ports[].protocol": "TCP"}


class PodTemplates(Strategy):
    """PodTemplates."""

    counts_generations = True
    defaults: ClassVar[Rules] = under("template.spec", POD_SPEC)
    rules = (lambda obj: at("template", pods.template(obj.get("template") or {})),)


class Addresses(Strategy):
    """IPAddresses: named by the address that they hold."""

    judges_base = False
    name_error = staticmethod(strict_ip_error)
    rules = (services.address,)
    immutable: ClassVar[Mapping[str, str]] = {"spec.parentRef": IMMUTABLE}


class AddressRanges(Strategy):
    """ServiceCIDRs: a block of the other IP family may be added."""

    judges_base = False
    rules = (services.address_range,)

    def validate_update(self, obj: Obj, old: Obj) -> list[FieldError]:
        before, after = list_at(old, "spec.cidrs"), list_at(obj, "spec.cidrs")
        if len(after) != len(before) and (len(before), len(after)) != (1, 2):
            return [invalid_value("spec.cidrs", after, IMMUTABLE)]
        pairs = enumerate(zip(after, before, strict=False))
        return [invalid_value(f"spec.cidrs[{i}]", new, IMMUTABLE) for i, (new, kept) in pairs if new != kept]
