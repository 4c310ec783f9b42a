"""What a test has of its cluster, whether that is in this process or made of real nodes.

Every method blocks; in an async test, call them by `asyncio.to_thread`. Errors of the API server are those of
`mooring.kube.errors`.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from mooring.csi.faults import parse_fault, write_faults
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.errors import KubeError
from mooring.testing import waiting
from mooring.testing.loop_thread import LoopThread
from mooring.testing.objects import Manifest, Objects
from mooring.testing.options import Options

Found = TypeVar("Found")
FAULTS = "csi-faults"
WITHIN_S = 30.0
"""How long is waited for what a test does not give a time for."""


class Cluster(ABC):
    """A cluster that lives as long as its context.

    `kubeconfig` is the administrator's: any client can use it. `data_dir` holds all that the cluster has;
    `nodes` are the names of its nodes.
    """

    def __init__(self, thread: LoopThread, options: Options, data_dir: Path) -> None:
        self.options = options
        self.data_dir = data_dir
        self._thread = thread
        self._client: Client | None = None
        self._objects: Objects | None = None
        self._looked_at: dict[tuple[str, str], None] = {}
        self._faults: list[tuple[str, str]] = []

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, as a file: for KUBECONFIG, `config.load_kube_config`, ..."""
        return self.data_dir / "kubeconfig"

    @property
    def url(self) -> str:
        """Where the API server listens, with a certificate of its own authority."""
        return config.read(self.kubeconfig).server

    @property
    @abstractmethod
    def nodes(self) -> Sequence[str]:
        """The names of the nodes that it was made with."""

    # --- objects

    def apply(self, manifest: Manifest) -> Sequence[dict[str, Any]]:
        """Server-side apply of YAML, of a file of it, or of an object; in the namespace `default` unless it
        says another. The objects are returned."""
        return self._do(lambda objects: objects.apply(manifest))

    def get(self, target: str, namespace: str = "default") -> dict[str, Any] | None:
        """The object KIND/NAME, or None. `eventually` explains those that its condition asked for."""
        self._looked_at[target, namespace] = None
        return self._do(lambda objects: objects.get(target, namespace))

    def list(self, kind: str, namespace: str = "default") -> Sequence[dict[str, Any]]:
        """All objects of a kind in a namespace; all there are, of a kind that knows no namespaces."""
        return self._do(lambda objects: objects.list(kind, namespace))

    def patch(self, target: str, body: Mapping[str, Any], namespace: str = "default") -> dict[str, Any]:
        """A merge patch of KIND/NAME."""
        return self._do(lambda objects: objects.patch(target, body, namespace))

    def delete(self, target: str, namespace: str = "default") -> None:
        """Asks for the deletion of KIND/NAME, and does not wait. One that is not there is no error."""
        self._do(lambda objects: objects.delete(target, namespace))

    def events(self, target: str, namespace: str = "default") -> Sequence[str]:
        """The events about KIND/NAME as `Reason: message`, in no certain order."""
        return self._do(lambda objects: objects.events(target, namespace))

    # --- waiting

    def eventually(
        self, holds: Callable[[], Found], within: float = WITHIN_S, *, about: str | Sequence[str] = ()
    ) -> Found:
        """Waits until `holds()` is true, and returns what it gave; an assertion that fails in it means "not
        yet".

        Raises NotYet after `within` seconds, with what was seen last and what `mooring why` says: of
        `about` (KIND/NAME, in `default`), else of what the condition asked for by `get`, else of all that is
        stuck.
        """
        __tracebackhide__ = True
        self._looked_at.clear()
        named = [(each, "default") for each in ([about] if isinstance(about, str) else about)]

        def explain() -> str:
            try:
                return self._why(named or list(self._looked_at))
            except (KubeError, OSError) as error:
                return f"mooring why: {error}"

        return waiting.until(holds, within, explain)

    def why(self, target: str, namespace: str = "default") -> str:
        """What `mooring why KIND/NAME` says now, for people."""
        return self._why([(target, namespace)])

    def _why(self, targets: Sequence[tuple[str, str]]) -> str:
        from mooring.testing.explaining import why

        return self._thread.run(why(self.kubeconfig, targets))

    # --- faults

    @abstractmethod
    def cut(self, node: str) -> None:
        """Cuts a node off: nothing reaches it or comes from it, and what runs there goes on."""

    @abstractmethod
    def heal(self, node: str) -> None:
        """Takes `cut` back."""

    @abstractmethod
    def kill(self, node: str) -> None:
        """Cuts a node's power: its processes end, and what was not synced to disk is lost."""

    @abstractmethod
    def start(self, node: str) -> None:
        """Boots a node that was killed. Does not wait until it is Ready."""

    @contextlib.contextmanager
    def csi_fault(self, driver: str, call: str, what: str, *, share: float = 1.0) -> Generator[None]:
        """Within the context, calls of a CSI driver fail or are late, as `mooring up --csi-fault` has it.

        `what` is `UNAVAILABLE` or another code (the driver never sees the call), `after-UNAVAILABLE` (it
        carries it out, and its answer is lost), or `2.5s` (it is late); `share` is the part of the calls that
        it strikes, from 0 to 1. Raises ValueError, which lists what there is.
        """
        fault = f"{call}:{what}:{share:g}"
        parse_fault(fault)
        if driver not in self.options.csi:
            known = ", ".join(self.options.csi) or "none"
            raise ValueError(f"this cluster has no CSI driver {driver!r}: there are {known} (Options.csi)")
        self._faults.append((driver, fault))
        write_faults(self.data_dir / FAULTS, self._faults)
        try:
            yield
        finally:
            self._faults.remove((driver, fault))
            write_faults(self.data_dir / FAULTS, self._faults)

    # --- within

    def _do(self, work: Callable[[Objects], Coroutine[Any, Any, Found]]) -> Found:
        async def do() -> Found:
            if self._objects is None:
                self._client = config.load(self.kubeconfig)
                self._objects = Objects(self._client)
            return await work(self._objects)

        return self._thread.run(do())

    async def _hang_up(self) -> None:
        if self._client is not None:
            await self._client.close()
