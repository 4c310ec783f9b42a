"""EC2's query protocol: what botocore writes is understood, and what we write it reads."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from botocore.model import OperationModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer
from botocore.session import get_session
from hypothesis import given
from hypothesis import strategies as st

from mooring.cloud.endpoint.query import parse_request, render_answer, render_error
from mooring.cloud.errors import Ec2Error

MODEL = get_session().get_service_model("ec2")


def written_by_botocore(action: str, request: dict[str, Any]) -> dict[str, str]:
    operation: OperationModel = MODEL.operation_model(action)
    body = create_serializer("ec2").serialize_to_request(request, operation)["body"]
    return {name: str(value) for name, value in body.items()}


def read_by_botocore(action: str, text: str, status: int = 200) -> dict[str, Any]:
    shape = MODEL.operation_model(action).output_shape
    parsed = create_parser("ec2").parse({"body": text.encode(), "headers": {}, "status_code": status}, shape)
    parsed.pop("ResponseMetadata")
    return parsed


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        (
            "CreateVolume",
            {
                "AvailabilityZone": "us-east-1a",
                "Size": 10,
                "Encrypted": True,
                "VolumeType": "gp3",
                "TagSpecifications": [{"ResourceType": "volume", "Tags": [{"Key": "a.b", "Value": "x=y&z"}]}],
            },
        ),
        ("DescribeVolumes", {"Filters": [{"Name": "tag:n", "Values": ["a", "b"]}], "VolumeIds": ["vol-1"]}),
        ("DescribeInstances", {"InstanceIds": [f"i-{number}" for number in range(12)], "MaxResults": 7}),
        ("DescribeVolumes", {}),
    ],
)
def test_what_an_sdk_writes_is_read_back(action: str, request_: dict[str, Any]) -> None:
    assert parse_request(action, written_by_botocore(action, request_)) == request_


@given(st.lists(st.tuples(st.text(min_size=1), st.text()), min_size=1, max_size=5))
def test_any_text_in_a_request_survives(tags: list[tuple[str, str]]) -> None:
    request = {"Resources": ["vol-1"], "Tags": [{"Key": key, "Value": value} for key, value in tags]}
    assert parse_request("CreateTags", written_by_botocore("CreateTags", request)) == request


@given(st.text(alphabet=st.characters(min_codepoint=32, exclude_categories=["Cs", "Cn"])))
def test_any_text_in_an_answer_survives(text: str) -> None:
    answer = {"Volumes": [{"VolumeId": text}]}
    assert read_by_botocore("DescribeVolumes", render_answer("DescribeVolumes", answer, "id")) == answer


def test_an_sdk_reads_numbers_times_lists_and_truth() -> None:
    answer = {
        "Volumes": [
            {
                "VolumeId": "vol-1",
                "Size": 7,
                "Encrypted": False,
                "CreateTime": datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC),
                "Attachments": [{"InstanceId": "i-1", "State": "attached"}],
                "Tags": [],
            }
        ],
        "NextToken": "more",
    }
    found = read_by_botocore("DescribeVolumes", render_answer("DescribeVolumes", answer, "id"))
    assert found == answer


def test_an_sdk_reads_an_error() -> None:
    text = render_error(Ec2Error("VolumeInUse", "vol-1 is <in use>"), "id")
    assert read_by_botocore("DeleteVolume", text, 400)["Error"] == {
        "Code": "VolumeInUse",
        "Message": "vol-1 is <in use>",
    }


@pytest.mark.parametrize(
    ("action", "form", "code"),
    [
        ("EatVolume", {}, "InvalidAction"),
        ("DeleteVolume", {"VolumeIdd": "vol-1"}, "UnknownParameter"),
        ("DeleteVolume", {"VolumeId.1": "vol-1"}, "UnknownParameter"),
        ("DescribeVolumes", {"VolumeId.one": "vol-1"}, "UnknownParameter"),
        ("DescribeVolumes", {"VolumeId": "vol-1"}, "UnknownParameter"),
        ("CreateVolume", {"Size": "ten"}, "InvalidParameterValue"),
        ("CreateVolume", {"Size": "1_0"}, "InvalidParameterValue"),
        ("CreateVolume", {"Encrypted": "perhaps"}, "InvalidParameterValue"),
        ("CreateVolume", {".".join("A" * 50): "deep"}, "UnknownParameter"),
        ("DescribeVolumes", {"Filter.1": "x", "Filter.1.Name": "y"}, "InvalidParameterCombination"),
    ],
)
def test_a_form_that_no_sdk_writes_is_refused_by_name(action: str, form: dict[str, str], code: str) -> None:
    with pytest.raises(Ec2Error) as caught:
        parse_request(action, form)
    assert caught.value.code == code


@given(st.dictionaries(st.text("VolumeIdFr.1Name ", max_size=20), st.text(max_size=5), max_size=4))
def test_no_form_is_more_than_refused(form: dict[str, str]) -> None:
    try:
        parse_request("DescribeVolumes", form)
    except Ec2Error as error:
        assert error.code


def test_an_answer_that_ec2_does_not_give_is_an_error_of_ours() -> None:
    with pytest.raises(KeyError):
        render_answer("DescribeVolumes", {"Volums": []}, "id")
