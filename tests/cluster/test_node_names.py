"""Two machines, one name."""

from __future__ import annotations

import pytest
from tests.machines import stories

from mooring.cluster.stage import Stage

pytestmark = [pytest.mark.root, pytest.mark.cluster, pytest.mark.timeout(120)]


async def test_a_second_agent_of_a_name_is_found_out(stage: Stage) -> None:
    await stories.a_second_agent_of_a_name_is_found_out(stage)
