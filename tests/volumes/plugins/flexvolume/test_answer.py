"""A driver's answer is read as upstream reads it, and refused when it is none."""

from __future__ import annotations

import pytest

from mooring.volumes.plugins.flexvolume.answer import (
    LONGEST_ANSWER,
    LONGEST_MESSAGE,
    Answer,
    BadAnswer,
    Capabilities,
    Status,
    parse,
    printable,
)


def test_all_fields_of_an_answer_are_read() -> None:
    given = (
        b'{"status":"Success","message":"m","device":"/dev/sdx","volumeName":"v","attached":true,'
        b'"volumeNewSize":7,"capabilities":{"attach":false,"supportsMetrics":true,"requiresFSResize":false}}'
    )
    abilities = Capabilities(attach=False, supports_metrics=True, requires_fs_resize=False)
    assert parse(given) == Answer(Status.SUCCESS, "m", "/dev/sdx", "v", True, 7, abilities)


def test_capabilities_that_are_not_named_are_upstreams_defaults() -> None:
    found = parse(b'{"status":"Success","capabilities":{"selinuxRelabel":null}}').capabilities
    assert found == Capabilities(
        attach=True, selinux_relabel=True, supports_metrics=False, fs_group=True, requires_fs_resize=True
    )


def test_fields_are_known_in_any_case_and_others_are_skipped() -> None:
    given = b'{"Status":"Success","DEVICE":"/dev/a","future":{"a":[1]}}'
    assert parse(given) == Answer(Status.SUCCESS, device="/dev/a")


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"mounting...\n{}", "not JSON"),
        (b'{"status":"Success"} trailing', "not JSON"),
        (b"[]", "not a JSON object"),
        (b'"Success"', "not a JSON object"),
        (b"{}", "status"),
        (b'{"status":"success"}', "status"),
        (b'{"status":"Pending"}', "status"),
        (b'{"status":1}', "not a str"),
        (b'{"status":"Success","attached":"true"}', "not a bool"),
        (b'{"status":"Success","attached":1}', "not a bool"),
        (b'{"status":"Success","device":["/dev/a"]}', "not a str"),
        (b'{"status":"Success","volumeNewSize":true}', "not a int"),
        (b'{"status":"Success","volumeNewSize":-1}', "number of bytes"),
        (b'{"status":"Success","volumeNewSize":9223372036854775808}', "number of bytes"),
        (b'{"status":"Success","capabilities":[]}', "not a JSON object"),
        (b'{"status":"Success","capabilities":{"attach":"no"}}', "not a bool"),
        (b'{"status":"Success","device":"-o remount"}', "path"),
        (b'{"status":"Success","device":"/dev/a\\u0000b"}', "path"),
        (b'{"status":"Success","device":"/dev/a\\nb"}', "path"),
        (b'{"status":"Succ\xff"}', "UTF-8"),
        (b'{"status":' + b"[" * 30000 + b"]" * 30000 + b"}", "nested|not JSON"),
        (b" " * LONGEST_ANSWER + b'{"status":"Success"}', "longer"),
    ],
)
def test_what_is_no_answer_is_refused(output: bytes, problem: str) -> None:
    with pytest.raises(BadAnswer, match=problem):
        parse(output)


def test_words_of_a_driver_are_shown_in_one_bounded_line() -> None:
    assert printable("a\x1b[31m\r\nb") == "a [31m b"
    assert len(printable("x" * 100000)) == LONGEST_MESSAGE
