"""The seam between the driver and EC2: one method, with boto3's own names and shapes.

Nothing behind it knows of CSI, nothing before it knows of botocore. A simulation puts a cloud without a wire
here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol


class Ec2Api(Protocol):
    """EC2 in one region, with one account's credentials."""

    async def call(self, action: str, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Carries out the action ("AttachVolume") and gives its answer, in the shapes of boto3's
        documentation.

        One call is one request: no retries in here. If the task is cancelled, the request that was sent has
        ended, one way or the other, before the cancellation is raised. Raises Ec2Error.
        """
        ...
