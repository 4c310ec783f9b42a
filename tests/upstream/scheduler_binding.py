"""Cases of upstream's volume binder: whether a pod may go to a node, and which volumes its claims get."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.upstream.scheduler import Case, case_key, outcome, reasons_of
from tests.upstream.tables import Json, Table, read

NAMESPACE = "testns"
PROVISIONER = "driver.example.com"
NODE = {"kind": "Node", "metadata": {"name": "node1", "labels": {"nodeKey": "node1"}}}
KEY, LATE, AT_ONCE = "nodeKey", "WaitForFirstConsumer", "Immediate"


def _class(name: str, mode: str, provisioner: str, *places: str) -> Json:
    terms = [{"matchLabelExpressions": [{"key": KEY, "values": list(places)}]}] if places else []
    fields = {"provisioner": provisioner, "volumeBindingMode": mode, "allowedTopologies": terms}
    return {"kind": "StorageClass", "metadata": {"name": name}, **fields}


CLASSES = [
    _class("waitClassWithProvisioner", LATE, PROVISIONER, "node1", "reference-value"),
    _class("immediateClass", AT_ONCE, "kubernetes.io/no-provisioner"),
    _class("waitClass", LATE, "kubernetes.io/no-provisioner"),
    _class("topoMismatchClass", LATE, PROVISIONER, "reference-value"),
]
"""The classes of upstream's `newTestBinder`."""


def cases() -> Iterator[Case]:
    """All of them, those of the whole plugin included."""
    facts = read("volumebinding")
    yield from _finds(facts.table("TestFindPodVolumesWithoutProvisioning"))
    yield from _finds(facts.table("TestFindPodVolumesWithProvisioning"))
    yield from _migrations(facts.table("TestFindPodVolumesWithCSIMigration"))
    yield from _capacities(facts.table("TestCapacity"))
    yield from _plugin(facts.table("TestVolumeBinding"))


def _finds(table: Table) -> Iterator[Case]:
    for row in table.rows:
        claims = row["cachePVCs"] if "cachePVCs" in row else row.get("podPVCs") or []
        objects = [*CLASSES, *claims, *(row.get("pvs") or [])]
        # Where a case fails, upstream's binder is not asked about its claims, or gives no reason.
        expected = [] if row.get("shouldFail") else row.get("reasons")
        yield Case(case_key(table, row), _pod(row), NODE, objects, expected, _bindings(row))


def _migrations(table: Table) -> Iterator[Case]:
    for row in table.rows:
        [node] = row["initNodes"]
        objects = [*CLASSES, *row["podPVCs"], *(row.get("pvs") or []), *row.get("initCSINodes", [])]
        yield Case(case_key(table, row), _pod(row), node, objects, row.get("reasons"))


def _capacities(table: Table) -> Iterator[Case]:
    driver = {"kind": "CSIDriver", "metadata": {"name": PROVISIONER}, "spec": {"storageCapacity": True}}
    for row in table.rows:
        pod = _pod({"podPVCs": row["pvcs"]})
        capacities = [
            {**each, "metadata": {**each["metadata"], "name": f"{each['metadata']['name']}-{number}"}}
            for number, each in enumerate(row.get("capacities") or [])
        ]
        yield Case(
            case_key(table, row), pod, NODE, [*CLASSES, driver, *row["pvcs"], *capacities], row.get("reasons")
        )


def _plugin(table: Table) -> Iterator[Case]:
    variables = read("volumebinding").variables
    classes = [
        each for each in variables.values() if isinstance(each, dict) and each.get("kind") == "StorageClass"
    ]
    driver = variables["driverWithStorageCapacity"]
    for row in table.rows:
        capacities = row.get("capacities") or []
        objects = [*classes, driver, *(row.get("pvcs") or []), *(row.get("pvs") or []), *capacities]
        before = reasons_of(row.get("wantPreFilterStatus"))
        for number, node in enumerate(row["nodes"]):
            status = (row.get("wantFilterStatus") or [])[number : number + 1]
            expected = before or (reasons_of(status[0]) if status else None)
            where = f" ({node['metadata']['name']})" if len(row["nodes"]) > 1 else ""
            key = case_key(table, row) + where
            yield Case(key, row["pod"], node, objects, expected)


def _pod(row: Json) -> Json:
    if "pod" in row:  # the owner of its ephemeral claim has no uid
        return {**row["pod"], "metadata": {"uid": "", **row["pod"]["metadata"]}}
    claims = [{"claimName": each["metadata"]["name"]} for each in row.get("podPVCs") or []]
    volumes = [{"name": f"v{number}", "persistentVolumeClaim": each} for number, each in enumerate(claims)]
    return {
        "kind": "Pod",
        "metadata": {"name": "test-pod", "namespace": NAMESPACE},
        "spec": {"volumes": volumes},
    }


def _bindings(row: Json) -> dict[str, str] | None:
    """Returns which volume each claim gets; None if the case does not say."""
    if row.get("shouldFail") or row.get("reasons"):
        return None
    found: list[Any] = row.get("expectedBindings") or []
    return {_name(each, "PVC"): _name(each, "PV") for each in found}


def _name(binding: Json, field: str) -> str:
    return str(next(each for name, each in binding.items() if name.upper() == field)["metadata"]["name"])


def played() -> dict[str, list[str]]:
    """Each case → its differences."""
    return {case.key: outcome(case) for case in cases()}
