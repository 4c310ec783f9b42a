"""The cases of upstream's tests of its persistent volume controller, and what each of them calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.upstream.mock_plugin import MockPlugin
from tests.upstream.tables import Json, read


@dataclass
class Case:
    """One case of a table."""

    key: str
    """`Test: name`, unique."""
    row: Json
    classes: list[Json] = field(default_factory=list[Json])
    pods: list[Json] = field(default_factory=list[Json])
    multi: bool = False
    gates: Json = field(default_factory=dict[str, Any])


EXTERNAL = "TestDeleteSync.func3", "TestDeleteSync.func4"
"""Functions that write an external provisioner on the first volume before they call testSyncVolume."""


def _edited(row: Json) -> Json:
    """A row with what a function of the case itself changes in it."""
    if row["test"].get("function") not in EXTERNAL:
        return row
    found: Json = json.loads(json.dumps(row))
    for each in ("initialVolumes", "expectedVolumes"):
        annotations = found[each][0]["metadata"].setdefault("annotations", {})
        annotations["pv.kubernetes.io/provisioned-by"] = "external.io/test"
    return found


def cases() -> Iterator[Case]:
    """All cases of the controller's own tables."""
    package = read("persistentvolume")
    external = [
        each for each in package.variables["storageClasses"] if each["metadata"]["name"] == "external"
    ]
    for test in ("TestSync", "TestSyncBlockVolume", "TestMultiSync", "TestDeleteSync", "TestDeleteMultiSync",
                 "TestProvisionSync", "TestProvisionMultiSync", "TestRecycleSync", "TestRecycleMultiSync",
                 "TestControllerSync"):  # fmt: skip
        table = package.table(test)
        for row in table.rows:
            yield Case(
                key=f"{test}: {row['name']}",
                row=_edited(row),
                classes=table.scope.get("storageClasses", external if test == "TestControllerSync" else []),
                pods=table.scope.get("pods", []),
                multi="Multi" in test or test == "TestControllerSync",
                gates=row.get("$gates", {}),
            )
    for group in package.table("TestRetroactiveStorageClassAssignment").rows:
        for row in group["tests"]:
            key = f"TestRetroactiveStorageClassAssignment: {row['name']}"
            yield Case(key=key, row=row, classes=group.get("storageClasses", []))


# --- how a case is played


def calls(row: Json) -> tuple[Json, MockPlugin | None, str]:
    """Returns the inner call of a case, the plugin that it is wrapped with, and the name of the function that
    is injected before the operation starts."""
    call, plugin, injected = row["test"], None, ""
    while "call" in call:
        arguments = call["arguments"]
        if call["call"] == "wrapTestWithPluginCalls":
            recycles, deletes, provisions, call = arguments
            plugin = MockPlugin(recycles or [], deletes or [], provisions or [])
        elif call["call"] == "wrapTestWithProvisionCalls":
            provisions, call = arguments
            plugin = MockPlugin([], [], provisions or [])
        elif call["call"] == "wrapTestWithReclaimCalls":
            operation, outcomes, call = arguments
            plugin = MockPlugin(*((outcomes, []) if operation == "Recycle" else ([], outcomes)), [])
        elif call["call"] == "wrapTestWithInjectedOperation":
            _, call, function = arguments
            injected = function["function"]
        elif call["call"] == "wrapTestWithCSIMigrationProvisionCalls":
            (call,) = arguments
        else:
            raise KeyError(call["call"])
    return call, plugin, injected
