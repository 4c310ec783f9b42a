"""IMDSv2: tokens, and what an instance can read about itself."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from random import Random

import pytest

from mooring.cloud.actions.instance_views import InstanceView
from mooring.cloud.endpoint.metadata import TOKEN_HEADER, TTL_HEADER, Described, MetadataService

INSTANCE = Described(
    InstanceView(
        instance_id="i-0123",
        instance_type="m5.large",
        zone="us-east-1a",
        zone_id="use1-az1",
        state="running",
        account="123456789012",
        image_id="ami-1",
        private_ip="10.0.0.7",
        launched=datetime(2026, 1, 2, tzinfo=UTC),
        macs=("0e:00:00:00:00:07", "0e:00:00:00:01:07"),
        boot_devices={"ami": "xvda", "root": "/dev/xvda"},
    ),
    region="us-east-1",
    access_key="AKIA",
    secret_key="hush",
)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def service(clock: Clock) -> MetadataService:
    return MetadataService(clock, Random(1))


def token(service: MetadataService, ttl: str = "60") -> str:
    return service.answer("PUT", "/latest/api/token", {TTL_HEADER: ttl}, INSTANCE).text


def get(service: MetadataService, path: str) -> str:
    reply = service.answer("GET", f"/latest/{path}", {TOKEN_HEADER: token(service)}, INSTANCE)
    assert reply.status == 200, path
    return reply.text


def test_nothing_is_said_without_a_token(service: MetadataService) -> None:
    assert service.answer("GET", "/latest/meta-data/instance-id", {}, INSTANCE).status == 401
    assert (
        service.answer("GET", "/latest/meta-data/instance-id", {TOKEN_HEADER: "guess"}, INSTANCE).status
        == 401
    )


def test_a_token_ends_when_its_time_is_over(service: MetadataService, clock: Clock) -> None:
    headers = {TOKEN_HEADER: token(service, "60")}
    clock.now += 59
    assert service.answer("GET", "/latest/meta-data/instance-id", headers, INSTANCE).status == 200
    clock.now += 1
    assert service.answer("GET", "/latest/meta-data/instance-id", headers, INSTANCE).status == 401


@pytest.mark.parametrize("ttl", ["", "0", "21601", "soon", "-1"])
def test_a_token_is_asked_for_with_a_possible_time(service: MetadataService, ttl: str) -> None:
    assert service.answer("PUT", "/latest/api/token", {TTL_HEADER: ttl}, INSTANCE).status == 400


def test_no_token_is_given_through_a_proxy(service: MetadataService) -> None:
    headers = {TTL_HEADER: "60", "X-Forwarded-For": "10.0.0.1"}
    assert service.answer("PUT", "/latest/api/token", headers, INSTANCE).status == 403


def test_the_identity_document_says_which_instance_it_is(service: MetadataService) -> None:
    document = json.loads(get(service, "dynamic/instance-identity/document"))
    found = [document[name] for name in ("instanceId", "instanceType", "region", "availabilityZone")]
    assert found == ["i-0123", "m5.large", "us-east-1", "us-east-1a"]


def test_a_directory_lists_what_is_in_it(service: MetadataService) -> None:
    assert get(service, "meta-data/network/interfaces/macs/").splitlines() == [
        f"{mac}/" for mac in INSTANCE.instance.macs
    ]
    assert get(service, "meta-data/block-device-mapping/").splitlines() == ["ami", "root"]
    assert get(service, "meta-data/placement/availability-zone") == "us-east-1a"


def test_an_instance_has_credentials_that_end(service: MetadataService) -> None:
    role = get(service, "meta-data/iam/security-credentials/")
    found = json.loads(get(service, f"meta-data/iam/security-credentials/{role}"))
    assert (found["AccessKeyId"], found["SecretAccessKey"]) == ("AKIA", "hush")
    assert found["Expiration"] > found["LastUpdated"]


def test_what_there_is_not_is_not_found(service: MetadataService) -> None:
    headers = {TOKEN_HEADER: token(service)}
    for path in ("/latest/meta-data/outpost-arn", "/latest/meta-data/instance-id/more", "/etc/passwd"):
        assert service.answer("GET", path, headers, INSTANCE).status == 404


def test_a_terminated_instance_is_told_nothing(service: MetadataService) -> None:
    assert (
        service.answer("GET", "/latest/meta-data/instance-id", {TOKEN_HEADER: token(service)}, None).status
        == 404
    )


def test_nothing_can_be_changed(service: MetadataService) -> None:
    assert (
        service.answer(
            "POST", "/latest/meta-data/instance-id", {TOKEN_HEADER: token(service)}, INSTANCE
        ).status
        == 405
    )
    assert service.answer("GET", "/latest/api/token", {}, INSTANCE).status == 405
