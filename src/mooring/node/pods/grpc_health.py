"""Asks a service how it is, by gRPC's health protocol.

gRPC is large: who may need it imports this when it does.
"""

from __future__ import annotations

import grpc.aio
from grpc_health.v1.health_pb2 import HealthCheckRequest, HealthCheckResponse


async def check(address: str, service: str) -> tuple[bool, str]:
    """Whether it says that it serves, and if not, a message. `service` is "" for the server as a whole."""
    request = HealthCheckRequest(service=service)
    async with grpc.aio.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        ask = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=HealthCheckRequest.SerializeToString,
            response_deserializer=HealthCheckResponse.FromString,
        )
        try:
            answer = await ask(request)
        except grpc.aio.AioRpcError as error:
            return False, f"{error.code().name}: {error.details()}"
    status = HealthCheckResponse.ServingStatus.Name(answer.status)
    return (
        status == "SERVING",
        "" if status == "SERVING" else f"service unhealthy (responded with {status!r})",
    )
