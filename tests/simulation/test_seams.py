"""What a simulation replaces is a closed list: whatever else runs there is what runs in production.

Read from the sources: no module of the simulation but those of the list implements an interface of production
code, none but the mutants puts anything in the place of production code, and production code knows nothing of
a simulation.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import mooring

SOURCE = Path(mooring.__file__).parent
SIMULATION = SOURCE / "simulation"
SEAMS = {
    "parts.network": "transport between parts and API server (of which replicas that lag are a test double)",
    "parts.link_conditions": "what a link does to what it carries",
    "parts.watch_feed": "watches on their way",
    "parts.faulty_transport": "the same, for tests that hold single requests back",
    "parts.store_log": "the log under the store",
    "parts.machine": "processes and mounts of a machine",
    "parts.array_plugin": "the plugin of the storage",
    "parts.csi_driver": "a CSI driver of the storage, on the production base for drivers",
    "parts.csi_snapshots": "what it does with snapshots",
    "parts.ebs_driver": "the EBS driver's process, and its node service on played machines",
    "parts.driver_process": "the socket of a CSI driver",
    "parts.node_service": "the folder in which a node's driver registers",
    "parts.manifests": "what the kernel says of a machine's folder of manifests",
    "parts.ec2": "EC2's wire, and what is behind the cloud's volumes: devices of played machines, and its journal",
    "parts.emptydir_plugin": "the plugin of emptyDir, whose directories are on no disk",
    "parts.content_plugins": "volumes that show content of the API, whose files are written without a thread",
    "parts.share_plugin": "a file server, and what a machine mounts of it",
    "parts.storage": "the storage",
    "parts.storage_errors": "what it raises of its own",
    "parts.kept_snapshots": "its snapshots",
    "parts.disk_attributes": "what its disks are like",
    "engine.event_loop": "clock, and order of what happens",
    "engine.randomness": "chance",
}
INTERFACES = {
    "mooring.kube.transport": {"parts.network", "parts.faulty_transport"},
    "mooring.apiserver.store.log": {"parts.store_log"},
    "mooring.node.runtime": {"parts.machine"},
    "mooring.mounts.interface": {"parts.machine"},
    "mooring.volumes.interfaces": {"parts.array_plugin", "parts.emptydir_plugin", "parts.share_plugin"},
    "mooring.csi.driver.services": {"parts.csi_driver", "parts.csi_snapshots", "parts.ebs_driver"},
    "mooring.ebs.ec2.api": {"parts.ec2"},
    "mooring.cloud.interface": {"parts.ec2"},
}
"""Modules of production code in which a seam is defined, and who may stand in for what is defined there."""
VALUES = {"Request", "Response", "Record", "Transport"}
"""Types that every module may use."""
LOOKING = "checks.second_opinions."
"""Modules that ask what kind of thing they are given; none of their classes inherits from it (next test)."""
REPLACING = {"engine.isolation", "cluster.user_rules", "checks.second_opinions.listening"}
"""The first refuses what leaves the simulation, and puts nothing of Mooring's in another place; the second
puts in what a user has asked for by `--policy`; the third hears what is asked, and hands on the answer."""


def modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(SIMULATION.rglob("*.py")):
        name = ".".join(path.relative_to(SIMULATION).with_suffix("").parts)
        if not name.startswith("search.mutants"):
            yield name, ast.parse(path.read_text())


def imports(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def test_only_the_listed_modules_implement_what_production_code_defines_as_a_seam():
    found = {
        (name, module)
        for name, tree in modules()
        for module, what in imports(tree)
        if module in INTERFACES
        and what not in VALUES
        and name not in INTERFACES[module]
        and not name.startswith(LOOKING)
    }
    assert found == set()


def test_no_class_of_production_code_is_changed_by_inheritance_outside_the_seams():
    found: list[str] = []
    for name, tree in modules():
        ours = {
            what
            for module, what in imports(tree)
            if module.startswith("mooring.") and "simulation" not in module
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and name not in SEAMS:
                found += [f"{name}.{node.name}" for base in node.bases if ast.unparse(base) in ours]
    assert found == []


def test_nothing_of_production_code_is_replaced_but_by_mutants():
    found = [
        f"{name}: {ast.unparse(node)}"
        for name, tree in modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("setattr", "patch", "patch.object", "monkeypatch.setattr")
        and name not in REPLACING
    ]
    assert found == []


def test_production_code_does_not_ask_whether_it_is_simulated():
    knows = [
        str(path)
        for path in SOURCE.rglob("*.py")
        if SIMULATION not in path.parents
        and path.parent.name not in ("cli", "testing")
        and "mooring.simulation" in path.read_text()
    ]
    assert knows == []


def test_every_seam_that_is_listed_is_there():
    assert set(SEAMS) <= {name for name, _ in modules()}
