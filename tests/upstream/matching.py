"""Plays the tables of upstream's index of volumes against ours: which volume a claim gets."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from tests.upstream.tables import Json, read

from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.volumes.free_volumes import FreeVolumes
from mooring.volumes.matching import mismatch


def outcomes() -> Iterator[tuple[str, list[str]]]:
    """Each case with its differences."""
    package = read("persistentvolume")
    volumes = [_volume(each) for each in package.variables["createTestVolumes()"]]
    for row in package.table("TestMatchVolume").rows:
        found = FreeVolumes(volumes).find(_claim(row["claim"]))
        yield _outcome(
            "TestMatchVolume", row, row.get("expectedMatch", ""), found.metadata.uid if found else ""
        )
    for row in package.table("TestVolumeModeCheck").rows:
        problem = mismatch(_volume(row["vol"]), _claim(row["pvc"])) or ""
        yield _outcome(
            "TestVolumeModeCheck", row, row.get("isExpectedMismatch", False), "volumeMode" in problem
        )
    for test, label in (
        ("TestFilteringVolumeModes", "scenarios"),
        ("TestStorageObjectInUseProtectionFiltering", "filteringTestCases"),
    ):
        for row in package.table(test, label).rows:
            index = FreeVolumes([_volume(each) for each in row["vol"]["store"]])
            yield _outcome(
                test, row, row.get("isExpectedMatch", False), index.find(_claim(row["pvc"])) is not None
            )
    for row in package.table("TestStorageObjectInUseProtectionFiltering", "satisfyingTestCases").rows:
        fits = mismatch(_volume(row["vol"]), _claim(row["pvc"])) is None
        test = "TestStorageObjectInUseProtectionFiltering, satisfying"
        yield _outcome(test, row, row.get("isExpectedMatch", False), fits)
    table = package.table("TestCheckAccessModes")
    for row in table.rows:
        pv = {**table.scope["pv"], "metadata": {"name": "pv"}}
        problem = mismatch(
            _volume(pv, capacity=row["claim"]["spec"]["resources"]["requests"]), _claim(row["claim"])
        )
        yield _outcome("TestCheckAccessModes", row, row.get("shouldSucceed", False), problem is None)


def _outcome(test: str, row: Json, expected: object, found: object) -> tuple[str, list[str]]:
    return f"{test}: {row['$key']}", [] if found == expected else [f"found is {found!r}, not {expected!r}"]


def _volume(body: Json, capacity: Json | None = None) -> PersistentVolume:
    """What the API server would have: a volume of no mode is a file system."""
    spec = {"volumeMode": "Filesystem", **body["spec"], **({"capacity": capacity} if capacity else {})}
    if body["metadata"].get("deletionTimestamp") == {}:
        body = {**body, "metadata": {**body["metadata"], "deletionTimestamp": "2020-01-01T00:00:00Z"}}
    return msgspec.convert({**body, "spec": spec}, PersistentVolume)


def _claim(body: Json) -> PersistentVolumeClaim:
    return msgspec.convert(body, PersistentVolumeClaim)
