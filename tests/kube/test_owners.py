"""What ties an object to its owner."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.apiserver.objects.validation.formats import subdomain_error
from mooring.kube.owners import LONGEST_NAME, derived_name

NAMES = st.from_regex(r"([a-z0-9][a-z0-9-]{0,6}[a-z0-9]\.?){1,40}[a-z0-9]", fullmatch=True).filter(
    lambda name: len(name) <= LONGEST_NAME
)


@given(NAMES, st.sampled_from(["-abc", "-0-abc", ".abc"]), st.integers(20, LONGEST_NAME))
def test_a_derived_name_is_a_name_and_no_longer_than_it_may_be(name: str, suffix: str, longest: int):
    found = derived_name(name, suffix, longest)
    assert subdomain_error(found) is None
    assert len(found) <= longest
    assert found.endswith(suffix)
    assert found == name + suffix or len(name + suffix) > longest
