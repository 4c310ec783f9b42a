"""Services, and where their traffic goes: Endpoints, EndpointSlices, and the kinds of service addresses."""

from __future__ import annotations

from typing import Any

from mooring.apiserver.errors import FieldError, Obj, duplicate, forbidden_field, invalid_value, required
from mooring.apiserver.objects.validation.checks import (
    Check,
    Errors,
    all_of,
    always,
    at,
    distinct,
    each,
    entries,
    exactly,
    needed,
    objects,
    one_of,
    part,
    part_of,
    port,
    port_or_name,
    present,
    record,
    text,
    too_many,
)  # fmt: skip
from mooring.apiserver.objects.validation.containers import PROTOCOLS
from mooring.apiserver.objects.validation.formats import (
    cidr_error,
    domain_name_error,
    ip_error,
    is_ipv6,
    label_error,
    label_value_error,
    path_segment_error,
    qualified_name_error,
    reachable_ip_error,
    strict_cidr_error,
    strict_ip_error,
    subdomain_error,
)  # fmt: skip
from mooring.apiserver.objects.validation.labels import labels

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_EXTERNAL = ("NodePort", "LoadBalancer")
_RANGES = "service.beta.kubernetes.io/load-balancer-source-ranges"
_protocol = always(one_of(*PROTOCOLS, needs=True))
_app_protocol = exactly(qualified_name_error)


def is_headless(spec: Obj) -> bool:
    """Whether a service has no address of its own."""
    return spec.get("clusterIPs") == ["None"]


def service(obj: Obj) -> Errors:
    """A Service."""
    spec = part(obj, "spec")
    kind, ports = spec.get("type") or "", objects(spec.get("ports"))
    errors: list[FieldError] = []
    if not ports and not is_headless(spec) and kind != "ExternalName":
        errors.append(required("ports"))
    if kind in _EXTERNAL and is_headless(spec):
        errors.append(invalid_value("clusterIPs[0]", "None", f"may not be set to 'None' for {kind} services"))
    if kind == "ExternalName":
        errors += _alias(spec)
    errors += at("ports", _ports(ports, headless=is_headless(spec)))
    errors += [*_SELECTED(spec), *_affinity(spec), *_addresses(spec), *_EXTERNAL_IPS(spec), *_TYPE(spec)]
    if kind == "ClusterIP":
        detail = "may not be used when `type` is 'ClusterIP'"
        errors += [
            forbidden_field(f"ports[{i}].nodePort", detail)
            for i, each in enumerate(ports)
            if each.get("nodePort")
        ]
    errors += at("ports", _node_ports(ports))
    errors += at("ports", distinct(lambda each: f"{each.get('protocol')}/{each.get('port')}")(ports))
    errors += [*_balanced(spec), *_traffic(spec)]
    return [*at("spec", errors), *_source_ranges(obj, kind)]


def _alias(spec: Obj) -> list[FieldError]:
    fields = ("clusterIPs", "ipFamilies", "ipFamilyPolicy")
    detail = "may not be set for ExternalName services"
    errors = [forbidden_field(field, detail) for field in fields if spec.get(field)]
    name = (spec.get("externalName") or "").removesuffix(".")
    return [*errors, *at("externalName", needed(text(subdomain_error))(name))]


def _ports(ports: list[Obj], *, headless: bool) -> Errors:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, entry in enumerate(ports):
        name = entry.get("name") or ""
        wrong: list[FieldError] = [] if name or len(ports) < 2 else [required("name")]
        wrong += at("name", text(label_error)(name))
        if name and name in seen:
            wrong.append(duplicate("name", name))
        seen.add(name)
        errors += at(f"[{index}]", [*wrong, *_PORT(entry)])
    return errors


_PORT = record(
    ("port", always(port)),
    ("protocol", _protocol),
    ("targetPort", always(port_or_name)),
    ("appProtocol", _app_protocol),
)
_SELECTED = record(("selector", labels))
_TYPE = record(("type", always(one_of(*_TYPES, needs=True))))
_EXTERNAL_IPS = record(
    ("externalIPs", each(lambda ip: exactly(ip_error)(ip) or exactly(reachable_ip_error)(ip)))
)


def _node_ports(ports: list[Obj]) -> Errors:
    errors: list[FieldError] = []
    seen: set[Any] = set()
    for index, entry in enumerate(ports):
        key = (entry.get("protocol"), entry.get("nodePort"))
        if not entry.get("nodePort"):
            continue
        if key in seen:
            errors.append(duplicate(f"[{index}].nodePort", entry["nodePort"]))
        seen.add(key)
    return errors


def _affinity(spec: Obj) -> list[FieldError]:
    affinity, config, path = (
        spec.get("sessionAffinity") or "",
        spec.get("sessionAffinityConfig"),
        "sessionAffinityConfig",
    )
    errors = at("sessionAffinity", one_of("ClientIP", "None", needs=True)(affinity))
    if affinity == "None" and config is not None:
        return [*errors, forbidden_field(path, "must not be set when session affinity is None")]
    if affinity != "ClientIP":
        return errors
    detail = "when session affinity type is ClientIP"
    client = part_of(config).get("clientIP")
    seconds = part_of(client).get("timeoutSeconds")
    if config is None:
        return [*errors, required(path, detail)]
    if client is None:
        return [*errors, required(f"{path}.clientIP", detail)]
    if seconds is None:
        return [*errors, required(f"{path}.clientIP.timeoutSeconds", detail)]
    if not 0 < seconds <= 86400:
        wrong = "must be greater than 0 and less than 86400"
        errors.append(invalid_value(f"{path}.clientIP.timeoutSeconds", seconds, wrong))
    return errors


_FAMILIES = ("IPv4", "IPv6")
_FAMILY_POLICIES = ("PreferDualStack", "RequireDualStack", "SingleStack")


def _addresses(spec: Obj) -> list[FieldError]:
    if spec.get("type") == "ExternalName":
        return []
    first, every, families = (
        spec.get("clusterIP") or "",
        entries(spec, "clusterIPs"),
        entries(spec, "ipFamilies"),
    )
    errors: list[FieldError] = []
    if first and not every:
        errors.append(required("clusterIPs"))
    elif first and every[0] != first:
        errors.append(invalid_value("clusterIPs", every, "first value must match `clusterIP`"))
    elif not first and every:
        errors.append(invalid_value("clusterIPs", every, "must be empty when `clusterIP` is not specified"))
    errors += at(
        "ipFamilies", [*each(one_of(*_FAMILIES))(families), *distinct(lambda family: family)(families)]
    )
    if (policy := spec.get("ipFamilyPolicy")) is not None:
        errors += at("ipFamilyPolicy", one_of(*_FAMILY_POLICIES)(policy))
    return [*errors, *_cluster_ips(every, families, headless=is_headless(spec))]


def _cluster_ips(every: list[str], families: list[str], *, headless: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    if every and every[0] == "None" and len(every) > 1:
        errors.append(invalid_value("clusterIPs", every, "'None' must be the first and only value"))
    for index, address in enumerate(every):
        if index or address != "None":
            errors += at(f"clusterIPs[{index}]", exactly(ip_error)(address))
    if len(every) > 2:
        errors.append(invalid_value("clusterIPs", every, "may only hold up to 2 values"))
    if errors:
        return errors
    if len(every) == 2 and is_ipv6(every[0]) == is_ipv6(every[1]):
        detail = "may specify no more than one IP for each IP family"
        errors.append(invalid_value("clusterIPs", every, detail))
    for index, (address, family) in enumerate(zip(every, families, strict=False)):
        if not headless and family in _FAMILIES and (family == "IPv6") != is_ipv6(address):
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            errors.append(invalid_value(f"clusterIPs[{index}]", address, detail))
    return errors


def _source_ranges(obj: Obj, kind: str) -> list[FieldError]:
    ranges = part(obj, "spec").get("loadBalancerSourceRanges")
    noted = part(obj["metadata"], "annotations").get(_RANGES)
    if not ranges and noted is None:
        return []
    path = "spec.LoadBalancerSourceRanges" if ranges else f"metadata.annotations[{_RANGES}]"
    errors: list[FieldError] = []
    if kind != "LoadBalancer":
        errors.append(forbidden_field(path, "may only be used when `type` is 'LoadBalancer'"))
    for index, block in enumerate(ranges or (noted.split(",") if noted and noted.strip() else ())):
        errors += at(f"{path}[{index}]" if ranges else path, exactly(cidr_error)(block.strip()))
    return errors


def _balanced(spec: Obj) -> list[FieldError]:
    """The fields that only services of type LoadBalancer may have."""
    balanced, detail = spec.get("type") == "LoadBalancer", "may only be used when `type` is 'LoadBalancer'"
    errors: list[FieldError] = []
    if spec.get("allocateLoadBalancerNodePorts") is not None and not balanced:
        errors.append(forbidden_field("allocateLoadBalancerNodePorts", detail))
    name = spec.get("loadBalancerClass")
    if name is None:
        return errors
    return [
        *errors,
        *(
            at("loadBalancerClass", exactly(qualified_name_error)(name))
            if balanced
            else [forbidden_field("loadBalancerClass", detail)]
        ),
    ]


def is_external(spec: Obj) -> bool:
    """Whether traffic reaches a service from outside of the cluster."""
    return spec.get("type") in _EXTERNAL or (
        spec.get("type") == "ClusterIP" and bool(spec.get("externalIPs"))
    )


def needs_health_check(spec: Obj) -> bool:
    """Whether a load balancer has to ask nodes which of them have pods of a service."""
    return spec.get("type") == "LoadBalancer" and spec.get("externalTrafficPolicy") == "Local"


def _traffic(spec: Obj) -> list[FieldError]:
    policy, check = spec.get("externalTrafficPolicy") or "", spec.get("healthCheckNodePort") or 0
    errors: list[FieldError] = []
    if is_external(spec):
        errors += at("externalTrafficPolicy", one_of("Cluster", "Local", needs=True)(policy))
    elif policy:
        detail = "may only be set for externally-accessible services"
        errors.append(invalid_value("externalTrafficPolicy", policy, detail))
    if needs_health_check(spec):
        errors += at("healthCheckNodePort", port(check)) if check else []
    elif check:
        detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"
        errors.append(invalid_value("healthCheckNodePort", check, detail))
    inner = spec.get("internalTrafficPolicy")
    if inner is None and spec.get("type") in ("ClusterIP", *_EXTERNAL):
        errors.append(required("internalTrafficPolicy"))
    return [*errors, *_TRAFFIC(spec)]


_TRAFFIC = record(
    ("internalTrafficPolicy", one_of("Cluster", "Local")),
    ("trafficDistribution", one_of("PreferClose", "PreferSameZone", "PreferSameNode")),
)


def changed(spec: Obj, old: Obj) -> list[FieldError]:
    """The fields of a service that may not change: its first address and IP family, its load balancer."""
    errors: list[FieldError] = []
    balanced = old.get("type") == spec.get("type") == "LoadBalancer"
    if "ExternalName" not in (spec.get("type"), old.get("type")):
        if not (is_headless(spec) and is_headless(old)):
            errors += _first_unchanged("clusterIPs", spec, old)
        if not is_headless(spec) and not is_headless(old):
            errors += _first_unchanged("ipFamilies", spec, old)
    if balanced and spec.get("loadBalancerClass") != old.get("loadBalancerClass"):
        errors.append(
            invalid_value("spec.loadBalancerClass", spec.get("loadBalancerClass"), "may not change once set")
        )
    if (
        needs_health_check(old)
        and needs_health_check(spec)
        and spec.get("healthCheckNodePort") != old.get("healthCheckNodePort")
    ):
        errors.append(forbidden_field("spec.healthCheckNodePort", "field is immutable"))
    return errors


def _first_unchanged(field: str, spec: Obj, old: Obj) -> list[FieldError]:
    before, after = entries(old, field), entries(spec, field)
    if before and after and before[0] != after[0]:
        return [invalid_value(f"spec.{field}[0]", after, "may not change once set")]
    if before and not after:
        return [invalid_value(f"spec.{field}[0]", after, f"primary {field[:-1]} can not be unset")]
    return []


def _endpoint_ports(value: Any) -> Errors:
    entries = objects(value)
    errors: list[FieldError] = []
    for index, entry in enumerate(entries):
        wrong = [required("name")] if len(entries) > 1 and not entry.get("name") else []
        errors += at(f"[{index}]", [*wrong, *_ENDPOINT_PORT(entry)])
    return errors


_ENDPOINT_PORT = record(
    ("name", text(label_error)),
    ("port", always(port)),
    ("protocol", _protocol),
    ("appProtocol", _app_protocol),
)
_endpoint_address = record(
    ("ip", always(exactly(ip_error))),
    ("hostname", text(label_error)),
    ("nodeName", exactly(subdomain_error)),
    ("ip", always(exactly(reachable_ip_error))),
)


def _subset(subset: Obj) -> Errors:
    detail = "must specify `addresses` or `notReadyAddresses`"
    some = subset.get("addresses") or subset.get("notReadyAddresses")
    return [*([] if some else [required("", detail)]), *_SUBSET(subset)]


_SUBSET = record(
    ("addresses", each(_endpoint_address)),
    ("notReadyAddresses", each(_endpoint_address)),
    ("ports", _endpoint_ports),
)
endpoints = record(("subsets", each(_subset)))
"""Endpoints."""


def endpoint_slice(obj: Obj) -> Errors:
    """An EndpointSlice."""
    kind = obj.get("addressType") or ""
    errors = at("addressType", one_of("FQDN", "IPv4", "IPv6", needs=True)(kind))
    ports, entries = objects(obj.get("ports")), objects(obj.get("endpoints"))
    names = distinct(lambda entry: entry.get("name") or "", "name")
    errors += at("ports", all_of(each(_SLICE_PORT), names)(ports))
    if len(entries) > 1000:
        return [*errors, too_many("endpoints", len(entries), 1000)]
    return [*errors, *at("endpoints", each(lambda entry: _endpoint(entry, kind))(entries))]


_SLICE_PORT = record(
    ("name", text(label_error)), ("protocol", present(one_of(*PROTOCOLS))), ("appProtocol", _app_protocol)
)


def _endpoint(endpoint: Obj, kind: str) -> Errors:
    addresses = entries(endpoint, "addresses")
    errors: list[FieldError] = [] if addresses else [required("addresses", "must contain at least 1 address")]
    if len(addresses) > 100:
        errors.append(too_many("addresses", len(addresses), 100))
    for index, address in enumerate(addresses):
        errors += _slice_address(address, kind, f"addresses[{index}]")
    return [*errors, *_ENDPOINT(endpoint)]


def _slice_address(address: str, kind: str, path: str) -> list[FieldError]:
    if kind == "FQDN":
        return at(path, needed(text(domain_name_error))(address))
    if kind not in _FAMILIES:
        return []
    wrong = at(path, exactly(ip_error if kind == "IPv4" else strict_ip_error)(address))
    if wrong:
        return wrong
    if is_ipv6(address) != (kind == "IPv6"):
        wrong = [invalid_value("addresses", address, f"must be an {kind} address")]
    return [*wrong, *at(path, exactly(reachable_ip_error)(address))]


def _hints(names: Check) -> Check:
    def check(value: Any) -> Errors:
        entries = objects(value)
        if len(entries) > 8:
            return [too_many("", len(entries), 8)]
        wrong = [*distinct(lambda entry: entry.get("name") or "", "name")(entries)]
        return [*wrong, *each(record(("name", always(names))))(entries)]

    return check


_ENDPOINT = record(
    ("nodeName", exactly(subdomain_error)),
    ("hostname", exactly(label_error)),
    ("hints", record(
        ("forZones", _hints(exactly(label_value_error))), ("forNodes", _hints(exactly(subdomain_error))),
    )),
)  # fmt: skip
_segment = text(path_segment_error)
address = record(("spec", always(lambda spec: _ADDRESS(spec or {}))))
"""An IPAddress."""
_ADDRESS = record(("parentRef", present(record(
    ("group", text(subdomain_error)), ("resource", needed(_segment)), ("name", needed(_segment)),
    ("namespace", _segment),
))))  # fmt: skip


def address_range(obj: Obj) -> Errors:
    """A ServiceCIDR: one block, or one of each IP family."""
    blocks = entries(part(obj, "spec"), "cidrs")
    if not blocks:
        return [required("spec.cidrs", "at least one CIDR required")]
    if len(blocks) > 2:
        return [invalid_value("spec.cidrs", blocks, "may only hold up to 2 values")]
    errors = at("spec.cidrs", each(exactly(strict_cidr_error))(blocks))
    families = [":" in block for block in blocks]
    if not errors and len(blocks) == 2 and families[0] == families[1]:
        detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(invalid_value("spec.cidrs", blocks, detail))
    return errors
