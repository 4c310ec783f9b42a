"""Label and field selectors: read or refused; printed and read again they are the same."""

from __future__ import annotations

from mooring.kube.selectors import InvalidSelector, parse_field_selector, parse_label_selector

SEEDS = [
    b"a=b,c!=d,!e,f,g in (h,i),j notin (k),l>1,m<2",
    b"example.com/a==b, x in ( ,y )",
    b"metadata.name=a\\,b,spec.nodeName!=x\\=y",
    b"a,,b",
]
_LABELS = {"a": "b", "f": "", "l": "5", "m": "-1", "example.com/a": "b"}


def check(data: bytes) -> None:
    text = data.decode(errors="replace")
    try:
        labels = parse_label_selector(text)
    except InvalidSelector:
        pass
    else:
        again = parse_label_selector(str(labels))
        assert again.matches(_LABELS) == labels.matches(_LABELS)
        assert again == labels
    try:
        fields = parse_field_selector(text)
    except InvalidSelector:
        return
    assert parse_field_selector(str(fields)).matches(_LABELS) == fields.matches(_LABELS)
