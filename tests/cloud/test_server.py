"""The endpoint as its clients see it: boto3, instances, and whoever sets a fault."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Generator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from cloud_server import Served, served


@pytest.fixture(scope="module")
def cloud() -> Generator[Served]:
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


def test_boto3_makes_a_volume_and_finds_it_by_its_tag(cloud: Served) -> None:
    ec2 = cloud.client()
    tags = [{"Key": "Name", "Value": "<a&b>"}]
    specification = [{"ResourceType": "volume", "Tags": tags}]
    made = ec2.create_volume(AvailabilityZone="us-east-1a", Size=3, TagSpecifications=specification)
    found = ec2.describe_volumes(Filters=[{"Name": "tag:Name", "Values": ["<a&b>"]}])["Volumes"]
    assert [(each["VolumeId"], each["Size"], each["Tags"]) for each in found] == [(made["VolumeId"], 3, tags)]


def test_boto3_waits_pages_and_attaches(cloud: Served) -> None:
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


def test_an_error_has_ec2s_code_and_http_status(cloud: Served) -> None:
    ec2 = cloud.client()
    assert code_of(ec2.delete_volume, VolumeId="vol-00000000000000000") == "InvalidVolume.NotFound"
    assert code_of(ec2.create_volume, AvailabilityZone="us-east-1a", Size=1, DryRun=True) == "DryRunOperation"


def test_an_unsigned_request_and_another_key_are_refused(cloud: Served) -> None:
    status, text = ask(f"{cloud.server.endpoint}/?Action=DescribeVolumes")
    assert status == 403
    assert "MissingAuthenticationToken" in text
    stranger = cloud.client(aws_access_key_id="AKIASTRANGER")
    assert code_of(stranger.describe_volumes) == "AuthFailure"
    elsewhere = cloud.client(region_name="eu-west-1")
    assert code_of(elsewhere.describe_volumes) == "AuthFailure"


def test_an_action_that_is_not_there_is_refused_by_name(cloud: Served) -> None:
    assert code_of(cloud.client().describe_spot_fleet_requests) == "InvalidAction"


def test_a_new_instance_has_its_metadata_service(cloud: Served) -> None:
    made = cloud.client().run_instances(ImageId="ami-1", InstanceType="m5.large", MinCount=1, MaxCount=1)
    shown = cloud.server.shown()["instances"][-1]
    assert shown["instance_id"] == made["Instances"][0]["InstanceId"]
    token_url = f"{shown['metadata_endpoint']}/latest/api/token"
    status, token = ask(token_url, "PUT", **{"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    assert status == 200
    headers = {"X-aws-ec2-metadata-token": token}
    where = f"{shown['metadata_endpoint']}/latest/meta-data/instance-id"
    assert ask(where, **headers) == (200, shown["instance_id"])


def test_no_instance_is_told_of_another(cloud: Served) -> None:
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


def test_there_are_as_many_instances_as_one_asks_for(cloud: Served) -> None:
    where = f"{cloud.server.endpoint}/_cloud/instances"
    status, text = ask(where, "POST", {"count": 5})
    assert (status, len(json.loads(text)["instances"])) == (200, 5)
    assert ask(where, "POST", {"count": 6, "instance_type": "banana"})[0] == 400
    assert ask(where, "POST", {"cound": 6})[0] == 400


def test_a_web_page_has_no_control_over_the_cloud(cloud: Served) -> None:
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
