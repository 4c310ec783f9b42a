"""The volume plugin of upstream's tables: a list of outcomes for each of its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from mooring.kube.objects import FlexVolumeSource, ObjectMeta, PersistentVolume, PersistentVolumeSpec, Pod
from mooring.volumes.host import VolumeHost
from mooring.volumes.interfaces import (
    DeletableVolumePlugin,
    Deleter,
    PersistentVolumePlugin,
    ProvisionableVolumePlugin,
    Provisioner,
    RecyclableVolumePlugin,
    RecycleEventRecorder,
    VolumeOptions,
)
from mooring.volumes.matching import PROVISIONED_BY
from mooring.volumes.spec import VolumeSpec

MOCK = "example.com/mock-volume"


class MockError(Exception):
    """An outcome that a table asks for, or a call that it does not expect."""


class MockPlugin(
    PersistentVolumePlugin, RecyclableVolumePlugin, DeletableVolumePlugin, ProvisionableVolumePlugin
):
    """Each list has one entry for each expected call: None, or the text of an error."""

    def __init__(self, recycles: Sequence[Any], deletes: Sequence[Any], provisions: Sequence[Any]) -> None:
        self._recycles, self._deletes, self._provisions = list(recycles), list(deletes), list(provisions)
        self._made: set[str] = set()

    def init(self, host: VolumeHost) -> None:
        pass

    def get_plugin_name(self) -> str:
        return MOCK

    def can_support(self, spec: VolumeSpec) -> bool:
        source = spec.persistent_volume.spec if spec.persistent_volume else None
        return source is not None and source.flex_volume is not None and source.flex_volume.driver == MOCK

    def get_volume_name(self, spec: VolumeSpec) -> str:
        return spec.name

    def get_access_modes(self) -> Sequence[str]:
        return ("ReadWriteOnce", "ReadOnlyMany")

    async def recycle(self, pv_name: str, spec: VolumeSpec, event_recorder: RecycleEventRecorder) -> None:
        _next(self._recycles, "recycle")

    def new_deleter(self, spec: VolumeSpec) -> Deleter:
        return _Deleter(self._deletes)

    def new_provisioner(self, options: VolumeOptions) -> Provisioner:
        return _Provisioner(self._provisions, self._made, options)

    def new_mounter(self, spec: VolumeSpec, pod: Pod) -> NoReturn:
        raise NotImplementedError

    def new_unmounter(self, spec_name: str, pod_uid: str) -> NoReturn:
        raise NotImplementedError

    async def construct_volume_spec(self, volume_name: str, mount_path: str) -> VolumeSpec:
        raise NotImplementedError


class _Deleter(Deleter):
    def __init__(self, outcomes: list[Any]) -> None:
        self._outcomes = outcomes

    def get_path(self) -> str:
        raise NotImplementedError

    async def delete(self) -> None:
        _next(self._outcomes, "delete")


class _Provisioner(Provisioner):
    def __init__(self, outcomes: list[Any], made: set[str], options: VolumeOptions) -> None:
        self._outcomes, self._made, self._options = outcomes, made, options

    async def provision(self) -> PersistentVolume:
        """A name that is asked for again is the same volume, as the interface wants it."""
        options, expected = self._options, self._outcomes[0] if self._outcomes else {}
        if options.pv_name not in self._made:
            if dict(options.parameters) != (expected or {}).get("expectedParameters", {}):
                raise MockError(f"parameters {options.parameters} are not expected")
            _next(self._outcomes, "provision", "ret")
            self._made.add(options.pv_name)
        return PersistentVolume(
            metadata=ObjectMeta(name=options.pv_name, annotations={PROVISIONED_BY: MOCK}),
            spec=PersistentVolumeSpec(
                capacity={"storage": options.claim.spec.resources.requests["storage"]},
                access_modes=options.claim.spec.access_modes,
                persistent_volume_reclaim_policy=options.reclaim_policy,
                storage_class_name=options.claim.spec.storage_class_name or "",
                volume_mode=options.claim.spec.volume_mode,
                flex_volume=FlexVolumeSource(driver=MOCK),
            ),
        )


def _next(outcomes: list[Any], call: str, inside: str = "") -> None:
    if not outcomes:
        raise MockError(f"unexpected {call}")
    outcome = outcomes.pop(0)
    if inside and outcome is not None:
        outcome = outcome.get(inside)
    if outcome is not None:
        raise MockError(outcome["error"])
