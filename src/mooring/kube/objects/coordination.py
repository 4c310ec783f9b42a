"""The group coordination.k8s.io: Leases."""

from __future__ import annotations

from mooring.kube.objects.meta import Object, Resource, Struct


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    RESOURCE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
    spec: LeaseSpec = LeaseSpec()
