"""EC2's query protocol: a form becomes a request, or is refused; every answer to it is XML."""

from __future__ import annotations

import re

from mooring.cloud.endpoint.query import form_of, parse_request, render_error
from mooring.cloud.errors import Ec2Error
from mooring.cloud.requests.filters import accepts
from mooring.cloud.requests.paging import page_of
from mooring.cloud.requests.parameters import filters

SEEDS = [
    b"Action=DescribeVolumes&Filter.1.Name=tag%3AName&Filter.1.Value.1=a*b%3F&MaxResults=5&Version=2016-11-15",
    b"Action=CreateVolume&Size=1&AvailabilityZone=us-east-1a&TagSpecification.1.Tag.1.Key=a&DryRun=true",
    b"Action=DescribeVolumes&NextToken=AAAA&VolumeId.1=vol-00000000&VolumeId.2=x",
    b"Action=ModifyVolume&VolumeId=vol-00000000&Iops=1e9",
    b"a.b=1&a=2",
]
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def check(data: bytes) -> None:
    try:
        form = form_of(data)
        request = parse_request(form.get("Action", ""), form)
        for one in filters(request):
            accepts(one.values)("aab")
        page_of("DescribeVolumes", request, 5, 1000, with_ids=True)
    except Ec2Error as error:
        assert not _NOT_XML.search(render_error(error, "id"))
