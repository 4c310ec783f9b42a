"""The embedded Kubernetes API server.

In this process, without sockets, threads or a wall clock of its own (tests, simulation)::

    server = Server.in_memory(now=clock, random=Random(7))
    await server.start()
    answer = await server.call("GET", "/api/v1/pods")  # as the administrator; a dict body is sent as JSON
    watch = await server.handle(Request("GET", "/api/v1/pods", [("watch", "1")], user=node_user("a")))
    async for lines in watch.stream: ...  # lines of JSON; end with `await watch.stream.aclose()`

Over HTTP on loopback, durable in `data_dir` (`mooring.apiserver.process`)::

    running = await serve(data_dir=path, port=0)  # writes data_dir/kubeconfig and data_dir/tokens.json
    running.url, running.tokens.node("a")
    await running.close()

The core (`server` and what it imports) knows no HTTP framework; `transport.http` is the adapter, `process`
puts the parts together.
"""

from __future__ import annotations

from mooring.apiserver.access.tokens import Tokens
from mooring.apiserver.message import ADMIN, Request, Response, User, node_user
from mooring.apiserver.server import Server

__all__ = ["ADMIN", "Request", "Response", "Server", "Tokens", "User", "node_user"]
