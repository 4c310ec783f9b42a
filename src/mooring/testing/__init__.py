"""Clusters for the tests of others: of CSI drivers, of operators, of anything that speaks to Kubernetes.

`pip install mooring[testing]` brings the pytest fixtures of `plugin` (docs/testing.md): `mooring_api`,
`mooring_cluster`, `mooring_nodes`, and `mooring_options`, which a test suite overrides. The context managers
`in_process` and `on_this_machine` are the same without pytest. No other package of Mooring imports this one.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

# The API server of `in_process` decides large requests in a copy of the process (`fork`). Where gRPC is,
# too, as for tests of a CSI driver, it would start its threads again in the copy, whose files are closed
# under them, and the copy could end without an answer. gRPC reads this when it is imported: it is set here.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

if TYPE_CHECKING:
    from mooring.testing.cluster import Cluster
    from mooring.testing.machine_cluster import on_this_machine
    from mooring.testing.options import Options
    from mooring.testing.played_cluster import PlayedCluster, in_process
    from mooring.testing.waiting import NotYet

__all__ = ["Cluster", "NotYet", "Options", "PlayedCluster", "in_process", "on_this_machine"]

_MODULES = {
    "Cluster": "cluster",
    "NotYet": "waiting",
    "Options": "options",
    "PlayedCluster": "played_cluster",
    "in_process": "played_cluster",
    "on_this_machine": "machine_cluster",
}


def __getattr__(name: str) -> Any:
    """Loaded when first asked for: pytest loads the plugin in every run, also where no test uses it."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
