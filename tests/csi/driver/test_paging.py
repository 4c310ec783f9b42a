"""Pages of lists."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.csi.driver.paging import page
from mooring.csi.errors import Code, CsiError
from mooring.csi.proto import csi_pb2 as csi


@settings(deadline=None)
@given(st.sets(st.text(min_size=1, max_size=3)), st.integers(0, 5), st.data())
def test_what_stays_is_listed_once_whatever_comes_and_goes(
    names: set[str], size: int, data: st.DataObject
) -> None:
    seen: list[str] = []
    there = set(names)
    request = csi.ListVolumesRequest(max_entries=size)
    while True:
        shown, request.starting_token = page(dict.fromkeys(there), request)
        seen += shown
        if not request.starting_token:
            break
        there -= data.draw(st.sets(st.sampled_from(sorted(there))))
    assert seen == sorted(set(seen))
    assert there <= set(seen)


def test_a_token_that_is_none() -> None:
    with pytest.raises(CsiError) as caught:
        page({}, csi.ListSnapshotsRequest(starting_token="17"))
    assert caught.value.code is Code.ABORTED
