"""Faults between a client and a driver."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.csi.client import Client
from mooring.csi.errors import Code, CsiError
from mooring.csi.faults import Fault, FaultFile, Faulty, parse_fault, write_faults
from mooring.csi.proto import csi_pb2 as csi
from mooring.csi.rpc import METHODS


class CountingDriver:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.reached = 0

    async def call(self, rpc: Any, request: Any, timeout_s: float) -> Any:
        self.reached += 1
        return rpc.reply()

    async def close(self) -> None:
        return


def client(driver: CountingDriver, *faults: str) -> Client:
    return Client(Faulty(driver, [parse_fault(each) for each in faults], Random(1)))


async def probe(caller: Client) -> Code:
    try:
        await caller.identity.probe(csi.ProbeRequest(), timeout_s=1)
    except CsiError as error:
        return error.code
    return Code.OK


async def test_an_error_keeps_the_call_from_the_driver():
    driver = CountingDriver()
    assert await probe(client(driver, "Probe:UNAVAILABLE")) is Code.UNAVAILABLE
    assert driver.reached == 0


async def test_an_error_after_the_call_lets_it_happen():
    driver = CountingDriver()
    assert await probe(client(driver, "Probe:after-INTERNAL")) is Code.INTERNAL
    assert driver.reached == 1


async def test_other_methods_are_not_touched():
    driver = CountingDriver()
    assert await probe(client(driver, "CreateVolume:UNAVAILABLE")) is Code.OK


async def test_a_share_of_the_calls_is_struck():
    driver = CountingDriver()
    caller = client(driver, "Probe:UNAVAILABLE:0.5")
    codes = [await probe(caller) for _ in range(200)]
    assert 60 < codes.count(Code.UNAVAILABLE) < 140
    assert driver.reached == codes.count(Code.OK)


def test_a_delay_is_waited_and_counts_against_the_deadline(run: Any):
    async def story() -> None:
        driver = CountingDriver()
        before = asyncio.get_running_loop().time()
        assert await probe(client(driver, "Probe:500ms")) is Code.OK
        assert asyncio.get_running_loop().time() - before == pytest.approx(0.5)
        assert await probe(client(driver, "Probe:2m")) is Code.DEADLINE_EXCEEDED
        assert driver.reached == 1

    run(story())


@given(
    method=st.sampled_from(sorted(METHODS)),
    code=st.sampled_from([code for code in Code if code is not Code.OK]),
    after=st.booleans(),
    share=st.floats(0, 1),
)
def test_what_is_written_is_what_is_read(method: str, code: Code, after: bool, share: float):
    text = f"{method}:{'after-' if after else ''}{code.name}:{share}"
    assert parse_fault(text) == Fault(method, share, code, after)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Stage:UNAVAILABLE", "'Stage' is no method of CSI; there are ControllerExpandVolume"),
        ("Probe", "neither a delay"),
        ("Probe:OK", "neither a delay"),
        ("Probe:BUSY", "nor one of CANCELLED"),
        ("Probe:UNAVAILABLE:2", "no probability"),
        ("Probe:UNAVAILABLE:x", "no probability"),
        ("Probe:UNAVAILABLE:nan", "no probability"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, words: str):
    with pytest.raises(ValueError, match=words):
        parse_fault(text)


async def test_faults_of_a_file_strike_while_they_are_in_it(tmp_path: Path):
    driver, file = CountingDriver(), tmp_path / "faults"
    caller = Client(Faulty(driver, FaultFile(file, "a.example.com"), Random(1)))
    assert await probe(caller) is Code.OK
    write_faults(file, [("a.example.com", "Probe:UNAVAILABLE")])
    assert await probe(caller) is Code.UNAVAILABLE
    write_faults(file, [])
    assert await probe(caller) is Code.OK


async def test_a_fault_of_a_file_is_of_one_driver(tmp_path: Path):
    write_faults(tmp_path / "faults", [("a.example.com", "Probe:UNAVAILABLE")])
    other = FaultFile(tmp_path / "faults", "b.example.com")
    assert await probe(Client(Faulty(CountingDriver(), other, Random(1)))) is Code.OK


def test_what_is_no_fault_is_not_written(tmp_path: Path):
    write_faults(tmp_path / "faults", [("a.example.com", "Probe:UNAVAILABLE")])
    with pytest.raises(ValueError, match="no method of CSI"):
        write_faults(tmp_path / "faults", [("a.example.com", "Prob:UNAVAILABLE")])
    assert list(FaultFile(tmp_path / "faults", "a.example.com")) == [parse_fault("Probe:UNAVAILABLE")]
