"""Answers of FlexVolume drivers: read, or refused; what is read is bounded and harmless."""

from __future__ import annotations

from mooring.volumes.plugins.flexvolume.answer import (
    LONGEST_MESSAGE,
    LONGEST_PATH,
    MOST_BYTES,
    BadAnswer,
    parse,
    printable,
)

SEEDS = [
    b'{"status":"Success","capabilities":{"attach":false,"selinuxRelabel":true,"supportsMetrics":false,'
    b'"fsGroup":true,"requiresFSResize":true}}',
    b'{"status":"Success","device":"/dev/sdx","volumeName":"v","attached":true,"volumeNewSize":1073741824}',
    b'{"status":"Failure","message":"no \\u001b[31msuch\\n volume","device":null}',
    b'{"status":"Not supported"}',
    b'{"Status":"Success","Attached":true}\n',
    b'{"status":' + b"[" * 200 + b"]" * 200 + b"}",
    b'{"status":"Success","device":"--option"}',
    b'{"status":"Success","volumeNewSize":99999999999999999999999}',
]


def check(data: bytes) -> None:
    try:
        answer = parse(data)
    except BadAnswer as error:
        assert len(str(error)) < 400
        return
    assert not answer.device.startswith("-")
    assert len(answer.device) <= LONGEST_PATH
    assert "\0" not in answer.device
    assert 0 <= answer.new_size <= MOST_BYTES
    assert isinstance(answer.attached, bool)
    shown = printable(answer.message)
    assert len(shown) <= LONGEST_MESSAGE
    assert "\n" not in shown
    assert "\x1b" not in shown
