"""The endpoint as its clients see it: boto3, instances, and the operator who sets a fault."""

from __future__ import annotations

import gzip
import json
import urllib.error
import urllib.request
from collections.abc import Generator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cloud_server import CREDENTIALS, ServedCloud, served


@pytest.fixture(scope="module")
def cloud() -> Generator[ServedCloud]:
    with served() as one:
        yield one


def ask(url: str, method: str = "GET", body: Any = None, **headers: str) -> tuple[int, str]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def code_of(call: Any, **request: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**request)
    return caught.value.response["Error"]["Code"]


def test_boto3_makes_a_volume_and_finds_it_by_its_tag(cloud: ServedCloud) -> None:
    ec2 = cloud.client()
    tags = [{"Key": "Name", "Value": "<a&b>"}]
    specification = [{"ResourceType": "volume", "Tags": tags}]
    made = ec2.create_volume(AvailabilityZone="us-east-1a", Size=3, TagSpecifications=specification)
    found = ec2.describe_volumes(Filters=[{"Name": "tag:Name", "Values": ["<a&b>"]}])["Volumes"]
    assert [(each["VolumeId"], each["Size"], each["Tags"]) for each in found] == [(made["VolumeId"], 3, tags)]


def test_boto3_waits_pages_and_attaches(cloud: ServedCloud) -> None:
    ec2 = cloud.client()
    instance = ec2.describe_instances()["Reservations"][0]["Instances"][0]["InstanceId"]
    made = [ec2.create_volume(AvailabilityZone="us-east-1a", Size=1)["VolumeId"] for _ in range(7)]
    ec2.get_waiter("volume_available").wait(VolumeIds=made, WaiterConfig={"Delay": 0.01})
    ec2.attach_volume(VolumeId=made[0], InstanceId=instance, Device="/dev/sdf")
    ec2.get_waiter("volume_in_use").wait(VolumeIds=made[:1], WaiterConfig={"Delay": 0.01})
    pages = ec2.get_paginator("describe_volumes").paginate(PaginationConfig={"PageSize": 5})
    sizes = [len(page["Volumes"]) for page in pages]
    assert len(sizes) > 1
    assert max(sizes) == 5


def test_an_error_has_ec2s_code_and_http_status(cloud: ServedCloud) -> None:
    ec2 = cloud.client()
    assert code_of(ec2.delete_volume, VolumeId="vol-00000000000000000") == "InvalidVolume.NotFound"
    assert code_of(ec2.create_volume, AvailabilityZone="us-east-1a", Size=1, DryRun=True) == "DryRunOperation"


def test_an_unsigned_request_and_another_key_are_refused(cloud: ServedCloud) -> None:
    status, text = ask(f"{cloud.server.endpoint}/?Action=DescribeVolumes")
    assert status == 403
    assert "MissingAuthenticationToken" in text
    stranger = cloud.client(aws_access_key_id="AKIASTRANGER")
    assert code_of(stranger.describe_volumes) == "AuthFailure"
    elsewhere = cloud.client(region_name="eu-west-1")
    assert code_of(elsewhere.describe_volumes) == "AuthFailure"


def test_an_action_that_is_not_there_is_refused_by_name(cloud: ServedCloud) -> None:
    assert code_of(cloud.client().describe_spot_fleet_requests) == "InvalidAction"


def test_a_new_instance_has_its_metadata_service(cloud: ServedCloud) -> None:
    made = cloud.client().run_instances(ImageId="ami-1", InstanceType="m5.large", MinCount=1, MaxCount=1)
    shown = cloud.server.shown()["instances"][-1]
    assert shown["instance_id"] == made["Instances"][0]["InstanceId"]
    token_url = f"{shown['metadata_endpoint']}/latest/api/token"
    status, token = ask(token_url, "PUT", **{"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    assert status == 200
    headers = {"X-aws-ec2-metadata-token": token}
    where = f"{shown['metadata_endpoint']}/latest/meta-data/instance-id"
    assert ask(where, **headers) == (200, shown["instance_id"])


def test_no_instance_is_told_of_another(cloud: ServedCloud) -> None:
    token_url = f"{cloud.metadata(0)}/latest/api/token"
    _, token = ask(token_url, "PUT", **{"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    headers = {"X-aws-ec2-metadata-token": token}
    assert ask(f"{cloud.metadata(1)}/latest/meta-data/instance-id", **headers)[0] == 401


def test_settings_are_shown_changed_and_refused_by_name() -> None:
    with served() as cloud:
        where = f"{cloud.server.endpoint}/_cloud/settings"
        status, text = ask(where, "PATCH", {"attaching_s": [7, 8]})
        assert (status, json.loads(text)["attaching_s"]) == (200, [7, 8])
        status, text = ask(where, "PATCH", {"attaching": 7})
        assert (status, "attaching" in text) == (400, True)
        assert json.loads(ask(where)[1])["attaching_s"] == [7, 8]


def test_calls_are_counted_until_that_is_reset() -> None:
    with served() as cloud:
        where = f"{cloud.server.endpoint}/_cloud/counters"
        cloud.client().describe_volumes()
        assert json.loads(ask(where)[1])["DescribeVolumes"]["calls"] == 1
        ask(where, "DELETE")
        assert json.loads(ask(where)[1]) == {}


def test_there_are_as_many_instances_as_one_asks_for(cloud: ServedCloud) -> None:
    where = f"{cloud.server.endpoint}/_cloud/instances"
    status, text = ask(where, "POST", {"count": 5})
    assert (status, len(json.loads(text)["instances"])) == (200, 5)
    assert ask(where, "POST", {"count": 6, "instance_type": "banana"})[0] == 400
    assert ask(where, "POST", {"cound": 6})[0] == 400


def test_a_web_page_has_no_control_over_the_cloud(cloud: ServedCloud) -> None:
    where = f"{cloud.server.endpoint}/_cloud/counters"
    assert ask(where, "DELETE", Origin="http://example.com")[0] == 403
    assert ask(where, "DELETE", Host="example.com")[0] == 403


def test_a_throttled_client_is_told_so_with_503() -> None:
    with served(buckets={"DescribeVolumes": [1, 0]}) as cloud:
        ec2 = cloud.client()
        ec2.meta.config.retries = {"max_attempts": 0}
        ec2.describe_volumes()
        with pytest.raises(ClientError) as caught:
            ec2.describe_volumes()
        assert caught.value.response["Error"]["Code"] == "RequestLimitExceeded"
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503


def signed(cloud: ServedCloud, body: bytes, **headers: str) -> tuple[int, str]:
    """A request to EC2 with a body of anyone's making."""
    key = f"AWS4-HMAC-SHA256 Credential={CREDENTIALS.access_key}/20260101/us-east-1/ec2/aws4_request"
    request = urllib.request.Request(
        cloud.server.endpoint + "/", data=body, headers={"Authorization": key, **headers}
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"&".join(b"A%d=b" % n for n in range(100_000)), 400, "MalformedQueryString"),
        (b"Action=" + b"x" * 2 * 2**20, 413, "RequestEntityTooLarge"),
        (b"Action=\xff", 400, "MalformedQueryString"),
        (b"Action=DescribeVolumes&Filter.1.Name=%ff", 400, "MalformedQueryString"),
        (b"Action=DescribeVolumes&MaxResults=" + b"9" * 5000, 400, "InvalidParameterValue"),
        (b"Action=DescribeVolumes&" + b"A." * 5000 + b"=1", 400, "UnknownParameter"),
        (b"Action=DescribeVolumes&VolumeId.%D9%A3=vol-1", 400, "InvalidVolumeID.Malformed"),
        (b"Action=DescribeVolumes&NextToken=%00%ff", 400, "MalformedQueryString"),
        (b"\x00" * 1000, 400, "MissingAction"),
        (b"", 400, "MissingAction"),
    ],
)
def test_a_hostile_form_is_refused(cloud: ServedCloud, body: bytes, status: int, code: str) -> None:
    got, text = signed(cloud, body)
    assert (got, f"<Code>{code}</Code>" in text) == (status, True), text[:500]


def test_a_form_of_another_type_and_a_compressed_one_are_refused(cloud: ServedCloud) -> None:
    form = b"Action=DescribeVolumes"
    assert signed(cloud, form, **{"Content-Type": "multipart/form-data; boundary=x"})[0] == 400
    assert signed(cloud, gzip.compress(form), **{"Content-Encoding": "gzip"})[0] == 400
    assert signed(cloud, form)[0] == 200


@pytest.mark.parametrize(
    "body",
    [b"[" * 100_000, b"\xff", b"[]", b'{"count": 1e9}', b'{"count": 1000000000}', b'{"count": 1, "zone": []}',
     b'{"count": 1, "instance_type": {}}', b'{"count": -1}', b'{"count": ' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_a_hostile_body_of_the_control_api_is_refused(cloud: ServedCloud, body: bytes) -> None:
    request = urllib.request.Request(f"{cloud.server.endpoint}/_cloud/instances", data=body)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value as answer:
        assert answer.code == 400


@pytest.mark.parametrize("ttl", ["9" * 5000, "٣", "-1", "1e3", "0", "21601"])
def test_no_odd_lifetime_makes_a_token(cloud: ServedCloud, ttl: str) -> None:
    headers = {"X-aws-ec2-metadata-token-ttl-seconds": ttl.encode().decode("latin-1")}
    request = urllib.request.Request(f"{cloud.metadata()}/latest/api/token", method="PUT", headers=headers)
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    with refused.value as answer:
        assert answer.code == 400
