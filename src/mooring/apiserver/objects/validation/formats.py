"""The formats of texts: names, keys, addresses. Each function returns why a text does not fit, or None.

The words are upstream's (`apimachinery/pkg/util/validation`), because people search for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Format = Callable[[str], str | None]

_LABEL_FORM = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_UNDERSCORED_FORM = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORM = rf"{_LABEL_FORM}(\.{_LABEL_FORM})*"
_NAME_FORM = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL = re.compile(_LABEL_FORM)
_SUBDOMAIN = re.compile(_SUBDOMAIN_FORM)
_UNDERSCORED = re.compile(rf"{_UNDERSCORED_FORM}(\.{_UNDERSCORED_FORM})*")
_LABEL_1035 = re.compile("[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME = re.compile(_NAME_FORM)
_CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_HEADER = re.compile("[-A-Za-z0-9]+")
_PERCENT = re.compile("[0-9]+%")
_PATH = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    f"character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME_FORM}')"
)


@lru_cache(maxsize=4096)
def subdomain_error(name: str) -> str | None:
    """RFC 1123 subdomain: what most objects are named by."""
    if len(name.encode(errors="replace")) > 253:
        return "must be no more than 253 characters"
    if _SUBDOMAIN.fullmatch(name):
        return None
    return (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must "
        "start "
        f"and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
        f"'{_SUBDOMAIN_FORM}')"
    )


@lru_cache(maxsize=4096)
def label_error(name: str) -> str | None:
    """RFC 1123 label: namespaces, containers, volumes, ports of services."""
    if len(name.encode(errors="replace")) > 63:
        return "must be no more than 63 characters"
    if _LABEL.fullmatch(name):
        return None
    if _SUBDOMAIN.fullmatch(name):
        return "must not contain dots"
    return (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and "
        "end "
        "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
        f"'{_LABEL_FORM}')"
    )


def underscored_subdomain_error(name: str) -> str | None:
    """A subdomain whose labels may begin with an underscore: what DNS searches."""
    if len(name) > 253:
        return "must be no more than 253 characters"
    return (
        None
        if _UNDERSCORED.fullmatch(name)
        else "a lowercase RFC 1123 subdomain must consist of lower case "
        "alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character"
    )


def label_1035_error(name: str) -> str | None:
    """RFC 1035 label: begins with a letter."""
    if len(name) > 63:
        return "must be no more than 63 characters"
    if _LABEL_1035.fullmatch(name):
        return None
    return (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic "
        "character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation "
        "is '[a-z]([-a-z0-9]*[a-z0-9])?')"
    )


def path_segment_error(name: str) -> str | None:
    """What can be a part of a URL path: names in RBAC."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    return next((f"may not contain '{mark}'" for mark in "/%" if mark in name), None)


@lru_cache(maxsize=4096)
def qualified_name_errors(key: str) -> Sequence[str]:
    """Why `key` is not a qualified name (`name` or `prefix/name`): everything that is wrong."""
    if key.count("/") > 1:
        error = (
            f"a valid label key {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. "
            f"'example.com/MyName')"
        )
        return (error,)
    prefix, slash, name = key.rpartition("/")
    errors: list[str] = []
    if slash and not prefix:
        errors.append("prefix part must be non-empty")
    elif prefix and (why := subdomain_error(prefix)) is not None:
        errors.append(f"prefix part {why}")
    if not name:
        errors.append("name part must be non-empty")
    elif len(name) > 63:
        errors.append("name part must be no more than 63 bytes")
    if not _NAME.fullmatch(name):
        errors.append(f"name part {_NAME_RULE}")
    return errors


def qualified_name_error(key: str) -> str | None:
    """`name` or `prefix/name`: keys of labels and annotations, finalizers, resources."""
    errors = qualified_name_errors(key)
    return errors[0] if errors else None


def lowered_name_error(key: str) -> str | None:
    """A qualified name in either case: keys of annotations, provisioners."""
    return qualified_name_error(key.lower())


@lru_cache(maxsize=4096)
def label_value_error(value: str) -> str | None:
    """The value of a label."""
    if len(value.encode(errors="replace")) > 63:
        return "must be no more than 63 bytes"
    if not value or _NAME.fullmatch(value):
        return None
    return (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must "
        "start "
        "and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for "
        f"validation is '({_NAME_FORM})?')"
    )


def _dots_error(value: str) -> str | None:
    if value in (".", ".."):
        return f"must not be '{value}'"
    return "must not start with '..'" if value.startswith("..") else None


def config_key_error(key: str) -> str | None:
    """A key of a ConfigMap or Secret: it becomes the name of a file."""
    if len(key) > 253:
        return "must be no more than 253 characters"
    if not _CONFIG_KEY.fullmatch(key):
        return (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or "
            "'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
        )
    return _dots_error(key)


def variable_error(name: str) -> str | None:
    """The name of an environment variable (KEP-4369): printable ASCII without `=`."""
    if all(" " <= each <= "~" and each != "=" for each in name):
        return None if name else "environment variable name must be non-empty"
    return "a valid environment variable name must consist only of printable ASCII characters other than '='"


def port_name_error(name: str) -> str | None:
    """The name of a port (RFC 6335)."""
    if len(name) > 15:
        return "must be no more than 15 characters"
    if not re.fullmatch("[-a-z0-9]+", name):
        return "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
    if not re.search("[a-z]", name):
        return "must contain at least one letter (a-z)"
    if "--" in name:
        return "must not contain consecutive hyphens"
    return "must not begin or end with a hyphen" if name[0] == "-" or name[-1] == "-" else None


def header_error(name: str) -> str | None:
    """The name of an HTTP header."""
    if _HEADER.fullmatch(name):
        return None
    return (
        "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for "
        "validation is '[-A-Za-z0-9]+')"
    )


def percent_error(value: str) -> str | None:
    """A share of a number: `25%`."""
    if _PERCENT.fullmatch(value):
        return None
    return (
        "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used "
        "for validation is '[0-9]+%')"
    )


def domain_path_error(value: str) -> str | None:
    """A path below a domain: `example.com/controller`."""
    domain, _, path = value.partition("/")
    if not domain or not path:
        return 'must be a domain-prefixed path (such as "acme.io/foo")'
    if (why := subdomain_error(domain)) is not None:
        return why
    return (
        None
        if _PATH.fullmatch(path)
        else "Invalid path (regex used for validation is "
        r"'[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')"
    )


def domain_name_error(value: str) -> str | None:
    """A fully qualified domain name of at least two labels; a trailing dot is allowed."""
    name = value.removesuffix(".")
    if (why := subdomain_error(name)) is not None:
        return why
    labels = name.split(".")
    if len(labels) < 2:
        return "should be a domain with at least two segments separated by dots"
    return next((why for label in labels if (why := label_error(label)) is not None), None)


def sloppy_ip(value: str) -> IPv4Address | IPv6Address | None:
    """An address as Go's older parser reads it: parts of IPv4 may begin with zeroes."""
    if "%" in value:
        return None
    parts = value.split(".")
    if len(parts) == 4 and all(part.isascii() and part.isdecimal() for part in parts):
        value = ".".join(part.lstrip("0") or "0" for part in parts)
    try:
        return ip_address(value)
    except ValueError:
        return None


def ip_error(value: str) -> str | None:
    """An IP address."""
    address = sloppy_ip(value)
    if address is None:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return "must not be an IPv4-mapped IPv6 address"
    return "must not have leading 0s" if isinstance(address, IPv4Address) and str(address) != value else None


def strict_ip_error(value: str) -> str | None:
    """An IP address in its canonical form (RFC 5952)."""
    address = sloppy_ip(value)
    if address is None:
        return "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
    return None if str(address) == value else f'must be in canonical form ("{address}")'


def is_ipv6(value: str) -> bool:
    """Whether a valid address is one of IPv6."""
    return isinstance(sloppy_ip(value), IPv6Address)


def reachable_ip_error(value: str) -> str | None:
    """An address that traffic can be sent to: neither unspecified, nor loopback, nor link-local."""
    address = sloppy_ip(value)
    if address is None:
        return "must be a valid IP address"
    if address.is_unspecified:
        return f"may not be unspecified ({value})"
    if address.is_loopback:
        return "may not be in the loopback range (127.0.0.0/8, ::1/128)"
    if address.is_link_local:
        return "may not be in the link-local range (169.254.0.0/16, fe80::/10)"
    if address in ip_network("224.0.0.0/24" if address.version == 4 else "ff02::/16"):
        return "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"
    return None


def cidr_error(value: str) -> str | None:
    """An IP block."""
    base, _, length = value.partition("/")
    address = sloppy_ip(base)
    bits = int(length) if length.isascii() and length.isdecimal() and len(length) < 5 else -1
    if address is None or not 0 <= bits <= address.max_prefixlen:
        return "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
    if (isinstance(address, IPv4Address) and str(address) != base) or str(bits) != length:
        return "must not have leading 0s in IP or prefix length"
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return "must not have an IPv4-mapped IPv6 address"
    masked = ip_network(f"{address}/{bits}", strict=False).network_address == address
    return None if masked else "must not have bits set beyond the prefix length"


def strict_cidr_error(value: str) -> str | None:
    """An IP block in its canonical form."""
    if (why := cidr_error(value)) is not None:
        return why
    network = ip_network(value)
    return None if str(network) == value else f'must be in canonical form ("{network}")'
