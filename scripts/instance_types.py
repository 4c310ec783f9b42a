"""Writes what is known of EC2's instance types, as facts, one line a type.

    python scripts/instance_types.py          # needs moto, which carries EC2's answers to DescribeInstanceTypes

`src/mooring/cloud/actions/instance_types.json`: type → [vCPUs, memory in MiB, architecture, hypervisor ("": bare metal), most
volumes, "shared" or "dedicated", EBS cards, most network interfaces]. `src/mooring/ebs/node_service/attachment_limits.json`: type →
[most volumes, "shared" or "dedicated", EBS cards].

Two answers are set right. Types on Xen have no shared slots: network interfaces take nothing from their volumes. Metal
types with a size in their name (m8g.metal-24xl) are of the generations whose volumes have slots of their own, but some
are described as "shared".
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

SOURCE = Path(*importlib.util.find_spec("moto").submodule_search_locations) / "ec2/resources/instance_types.json.gz"  # type: ignore
HERE = Path(__file__).parents[1]
CLOUD = HERE / "src/mooring/cloud/actions/instance_types.json"
DRIVER = HERE / "src/mooring/ebs/node_service/attachment_limits.json"

SIZED_METAL = re.compile(r"\.metal-\d+xl$")


def kind(name: str, facts: dict[str, Any]) -> str:
    """ "shared" or "dedicated"."""
    if facts.get("Hypervisor") == "xen" or SIZED_METAL.search(name):
        return "dedicated"
    return facts["EbsInfo"]["AttachmentLimitType"]


def row(name: str, facts: dict[str, Any]) -> list[Any]:
    """What the cloud knows of the type."""
    ebs = facts["EbsInfo"]
    return [
        facts["VCpuInfo"]["DefaultVCpus"],
        facts["MemoryInfo"]["SizeInMiB"],
        facts["ProcessorInfo"]["SupportedArchitectures"][-1],
        "" if facts["BareMetal"] else facts["Hypervisor"],
        ebs["MaximumEbsAttachments"],
        kind(name, facts),
        ebs.get("MaximumEbsCards", 1),
        facts["NetworkInfo"]["MaximumNetworkInterfaces"],
    ]


def limit(facts: list[Any]) -> list[Any]:
    """What the driver knows of the type: on Xen an instance with more than 40 may not boot (EC2's guide)."""
    hypervisor, most, shared, cards = facts[3:7]
    return [min(most, 39) if hypervisor == "xen" else most, shared, cards]


def write(target: Path, rows: dict[str, list[Any]]) -> None:
    """One line a type, sorted."""
    target.parent.mkdir(parents=True, exist_ok=True)
    lines = (f"{json.dumps(name)}:{json.dumps(rows[name], separators=(',', ':'))}" for name in sorted(rows))
    target.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    types = json.loads(gzip.decompress(SOURCE.read_bytes()))
    rows = {name: row(name, facts) for name, facts in types.items()}
    write(CLOUD, rows)
    write(DRIVER, {name: limit(facts) for name, facts in rows.items()})
    print(f"{len(rows)} types")
