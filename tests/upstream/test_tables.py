"""The tables of upstream's tests can be read. `python scripts/upstream_tables` makes them anew."""

from __future__ import annotations

import pytest
from tests.upstream.tables import FOLDER, name_of, read, restored

PACKAGES = sorted(path.stem for path in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", PACKAGES)
def test_each_table_is_of_a_test_of_the_package_and_has_cases(name: str):
    package = read(name)
    assert {table.test for table in package.tables} <= set(package.tests)
    assert all(table.rows for table in package.tables)


def test_the_cases_of_the_persistent_volume_controller_have_names_of_their_own():
    rows = [row for table in read("persistentvolume").tables for row in table.rows if "initialClaims" in row]
    assert all(name_of(row) for row in rows)


def test_usual_fields_come_back_and_those_that_an_object_lacks_do_not():
    usual = {"Pod": {"metadata": {"namespace": "ns"}, "spec": {"nodeName": "n"}}}
    assert restored({"kind": "Pod", "metadata": {"name": "p"}, "spec": None}, usual) == {
        "kind": "Pod",
        "metadata": {"namespace": "ns", "name": "p"},
    }


def test_a_reference_to_an_object_is_no_object():
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    assert restored(reference, {"Pod": {"spec": {"nodeName": "n"}}}) == reference
