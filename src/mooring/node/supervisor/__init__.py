"""The first process of a pod: a tiny supervisor that outlives the node agent.

Purpose: hold a pod's namespaces open, start its containers on request, reap every process, keep exit statuses
and logs. It decides nothing: whether a container is started again is the agent's word.

Guarantees:
- Everything that it knows is in `<pod directory>/state.json` (replaced atomically) before a client hears of
  it.
- A request that is repeated changes nothing: containers are started by (name, attempt).
- When it dies, the kernel ends every process of the pod with it: it is the first of the pod's PID namespace.

It imports the standard library only, no other part of Mooring, so that it starts fast and stays small: `main`
(launch and event loop), `container` (one container process and its log), `rootfs` (the mounts), `syscalls`.
"""

from __future__ import annotations

START_ERROR = 128
"""Exit code of a container, or of a command in one, whose process could not be started."""
ALREADY_STARTED = 3
"""Exit status of a launcher that came second: the pod has a supervisor, or is being given one."""
