"""The seam between the driver and EC2: one method, with boto3's own names and shapes.

Implementations know nothing of CSI, callers nothing of botocore. The simulator calls its cloud here, without
HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Ec2Api(Protocol):
    """EC2 in one region, with one account's credentials."""

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carries out the action ("AttachVolume") and returns its answer, in the shapes of boto3's
        documentation.

        One call is one request, without retries. If the task is cancelled, the cancellation is raised only
        when the request that was sent has ended. Raises Ec2Error.
        """
        ...
