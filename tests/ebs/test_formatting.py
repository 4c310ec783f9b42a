"""The options of a new file system, and the arguments of mkfs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.csi.errors import Code, CsiError
from mooring.ebs.formatting import (
    FS_TYPES,
    KEYS,
    SWITCHES,
    check_format,
    fs_type_of,
    mkfs_options,
    partition_of,
)

ANY = st.dictionaries(
    st.sampled_from([*sorted(KEYS), "blockSize", "type"]),
    st.sampled_from(["true", "4096", "1k", "$(id)", "-E", ""]) | st.text(),
)


def refused(parameters: dict[str, str], fs_type: str = "", block: bool = False) -> str:
    with pytest.raises(CsiError) as caught:
        check_format(parameters, fs_type, block)
    assert caught.value.code is Code.INVALID_ARGUMENT
    return caught.value.message


def test_keys_are_found_in_any_case_of_letters_and_others_are_left_alone():
    assert check_format({"blockSize": "4096", "type": "gp3"}, "ext4", False) == {"blocksize": "4096"}


def test_a_raw_block_volume_is_not_formatted():
    assert "raw block" in refused({"inodeSize": "512"}, block=True)
    assert check_format({"type": "gp3", "ext4bigalloc": "false"}, "", True) == {}


@pytest.mark.parametrize("fs_type", ["ext2", "ext3", "xfs"])
@pytest.mark.parametrize("key", ["ext4bigalloc", "ext4encryptionsupport"])
def test_features_of_ext4_are_refused_for_others(fs_type: str, key: str):
    assert key in refused({key: "true"}, fs_type)


@pytest.mark.parametrize("key", ["bytesperinode", "numberofinodes"])
def test_xfs_makes_inodes_as_it_needs_them(key: str):
    assert key in refused({key: "4096"}, "xfs")
    assert check_format({key: "4096"}, "ext3", False) == {key: "4096"}


def test_clusters_need_bigalloc():
    assert "ext4bigalloc" in refused({"ext4clustersize": "16384"})
    asked = {"ext4clustersize": "16384", "ext4bigalloc": "true"}
    assert check_format(asked, "ext4", False) == asked


@pytest.mark.parametrize("value", ["True", "yes", "1", ""])
def test_a_switch_is_on_for_true_alone(value: str):
    assert check_format({"ext4encryptionsupport": value}, "ext4", False) == {}


@pytest.mark.parametrize("value", ["", "4096 -E discard", "-1", "4,096", "$(id)", "k4", "4096\n", "٤"])
def test_what_is_no_size_is_refused(value: str):
    assert "no size" in refused({"blocksize": value})


def test_ntfs_is_named_as_what_it_is():
    assert "Windows" in refused({}, "ntfs")
    assert "ext4" in refused({}, "zfs; reboot")
    assert fs_type_of("") == "ext4"


def test_mke2fs_is_told_in_its_own_words_and_features_at_once():
    context = {"blocksize": "4096", "inodesize": "512", "bytesperinode": "8192", "numberofinodes": "1000"}
    assert mkfs_options(context, "ext3") == ("-b", "4096", "-I", "512", "-i", "8192", "-N", "1000")
    both = {"ext4bigalloc": "true", "ext4clustersize": "16k", "ext4encryptionsupport": "true"}
    assert mkfs_options(both, "ext4") == ("-C", "16k", "-O", "bigalloc,encrypt")


def test_mkfs_xfs_is_told_in_its_own_words():
    assert mkfs_options({"blocksize": "1024", "inodesize": "512"}, "xfs") == (
        "-b",
        "size=1024",
        "-i",
        "size=512",
    )
    assert mkfs_options({}, "xfs", legacy_xfs=True) == (
        "-m",
        "bigtime=0,inobtcount=0,reflink=0",
        "-i",
        "nrext64=0",
    )
    assert mkfs_options({}, "ext4", legacy_xfs=True) == ()


@given(ANY, st.sampled_from(FS_TYPES))
def test_whatever_the_context_says_mkfs_gets_only_what_was_checked(context: dict[str, str], fs_type: str):
    try:
        arguments = mkfs_options(context, fs_type)
    except CsiError as error:
        assert error.code is Code.INVALID_ARGUMENT
        return
    words = "".join(arguments)
    assert words.isascii()
    assert not set(words) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-=,")
    for flag, value in zip(arguments[::2], arguments[1::2], strict=True):
        assert flag.startswith("-")
        assert not value.startswith("-")


@given(ANY, st.sampled_from(FS_TYPES))
def test_what_was_accepted_is_accepted_again_on_the_node(parameters: dict[str, str], fs_type: str):
    try:
        context = check_format(parameters, fs_type, False)
    except CsiError:
        return
    assert check_format(context, fs_type, False) == context
    assert set(context) <= KEYS
    assert all(context[key] == "true" for key in SWITCHES & set(context))


def test_a_partition_is_a_number():
    assert partition_of({}) == 0
    assert partition_of({"partition": "0"}) == 0
    assert partition_of({"partition": "12"}) == 12
    for text in ("-1", "1; id", "p1", "../1", "1\n", "²"):
        with pytest.raises(CsiError, match="no number of a partition"):
            partition_of({"partition": text})
