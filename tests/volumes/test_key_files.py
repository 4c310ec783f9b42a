"""Keys of ConfigMaps and Secrets as files."""

from __future__ import annotations

import pytest

from mooring.kube.objects import ConfigMap, KeyToPath, Secret
from mooring.volumes.errors import ContentMissing, InvalidSpec
from mooring.volumes.key_files import config_map_contents, key_files, secret_contents
from mooring.volumes.payload import PayloadFile

WHERE = "ConfigMap shop/config"
CONTENTS = {"a": b"1", "b": b"2"}


def test_a_config_map_has_text_and_binary_keys():
    config_map = ConfigMap(data={"a": "1"}, binary_data={"c": "AP8="})
    assert config_map_contents(config_map, WHERE) == {"a": b"1", "c": b"\x00\xff"}


@pytest.mark.parametrize("data", ["%geheim%", "geheimé"])
def test_data_that_is_not_base64_is_refused_without_showing_it(data: str):
    with pytest.raises(InvalidSpec, match="key c that is not base64") as refused:
        secret_contents(Secret(data={"c": data}), "Secret shop/s")
    assert "geheim" not in str(refused.value)


def test_every_key_is_a_file():
    assert key_files(CONTENTS, (), None, False, WHERE) == {
        "a": PayloadFile(b"1", 0o644),
        "b": PayloadFile(b"2", 0o644),
    }


def test_items_choose_keys_paths_and_modes():
    items = (KeyToPath(key="a", path="conf/a.txt", mode=0o400), KeyToPath(key="b", path="b"))
    assert key_files(CONTENTS, items, 0o600, False, WHERE) == {
        "conf/a.txt": PayloadFile(b"1", 0o400),
        "b": PayloadFile(b"2", 0o600),
    }


def test_mode_zero_is_a_mode():
    assert key_files(CONTENTS, (), 0, False, WHERE)["a"].mode == 0


def test_a_missing_object_is_named_unless_it_is_optional():
    with pytest.raises(ContentMissing, match="ConfigMap shop/config does not exist"):
        key_files(None, (), None, False, WHERE)
    assert key_files(None, (), None, True, WHERE) == {}


def test_a_missing_key_is_named_unless_it_is_optional():
    items = (KeyToPath(key="a", path="a"), KeyToPath(key="z", path="z"))
    with pytest.raises(ContentMissing, match="has no key z"):
        key_files(CONTENTS, items, None, False, WHERE)
    assert list(key_files(CONTENTS, items, None, True, WHERE)) == ["a"]
