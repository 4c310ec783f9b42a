"""What is true of a node's machine, for those who are not its supervisor: whether it has power, and what is
mounted in it.

Power is the kernel's word (its cgroup; where there is none, its first process). The mount table of a machine
with a kernel of its own is what its first process last said; of any other, what this host's kernel says.
Blocking.
"""

from __future__ import annotations

from mooring.cluster.layout import Layout
from mooring.cluster.machines import cgroup
from mooring.cluster.processes import Running, load
from mooring.mounts.interface import Mount
from mooring.mounts.table import parse_mount_table, read_mount_table

TABLE = "mounts"


def first_process(layout: Layout, node: str) -> Running | None:
    """Of a machine that shares this host's kernel, by its pid here; None if it has no power."""
    held = load(layout.run / f"machine-{node}.json")
    children = held.children() if held is not None else []
    return children[0] if children else None


def has_power(layout: Layout, node: str) -> bool:
    """Whether anything of it runs."""
    group = cgroup.of(layout.root, node)
    if group is not None and group.path.is_dir():
        return group.populated()
    return first_process(layout, node) is not None  # it has no group, or is off


def mount_table(layout: Layout, node: str) -> tuple[Mount, ...] | None:
    """What is mounted in it; None if it has no power."""
    try:
        return parse_mount_table((layout.machine(node) / TABLE).read_text(errors="surrogateescape"))
    except (FileNotFoundError, ValueError):
        init = first_process(layout, node)
    try:
        return read_mount_table(init.pid) if init is not None and has_power(layout, node) else None
    except OSError:
        return None  # it has just lost its power


def note(layout: Layout, node: str, table: str) -> None:
    """Keeps what a machine has said of its mounts."""
    path = layout.machine(node) / TABLE
    draft = path.with_suffix(".new")
    draft.write_text(table, errors="surrogateescape")
    draft.rename(path)


def forget(layout: Layout, node: str) -> None:
    """The machine is off."""
    (layout.machine(node) / TABLE).unlink(missing_ok=True)
