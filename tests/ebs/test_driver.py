"""The driver as a whole: when it is ready, and where it calls EC2."""

from __future__ import annotations

import pytest

from mooring.csi.client import Client
from mooring.csi.driver.dispatch import Dispatcher, LocalChannel
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi
from mooring.ebs.controller_service.controller import EbsController
from mooring.ebs.driver import ebs_driver, region_of
from mooring.ebs.errors import MetadataError
from mooring.ebs.options import Options


class Checked(EbsController):
    """A controller that knows only whether EC2 answers."""

    def __init__(self, problem: str = "") -> None:
        self.problem = problem
        self.checks = 0

    async def check(self) -> None:
        self.checks += 1
        if self.problem:
            raise CsiError(Code.FAILED_PRECONDITION, self.problem)


async def probe(controller: EbsController) -> csi.ProbeResponse:
    client = Client(LocalChannel(Dispatcher(ebs_driver("1", controller, None), [])))
    return await client.identity.probe(csi.ProbeRequest(), timeout_s=5)


async def test_a_controller_is_ready_if_ec2_answers():
    controller = Checked()
    assert (await probe(controller)).ready.value
    assert controller.checks == 1


async def test_a_controller_that_ec2_does_not_let_in_says_why():
    with pytest.raises(CsiError, match="AuthFailure") as caught:
        await probe(Checked("AuthFailure: no credentials"))
    assert caught.value.code is Code.FAILED_PRECONDITION


async def test_a_region_that_is_given_is_not_asked_about():
    assert (
        await region_of(Options(region="eu-north-1", metadata_endpoint="http://127.0.0.1:1")) == "eu-north-1"
    )


async def test_without_a_region_and_without_metadata_it_says_what_to_set():
    with pytest.raises(MetadataError, match="no region: set AWS_REGION"):
        await region_of(Options(metadata_endpoint=""))
