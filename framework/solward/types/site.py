"""Sites: recipients of payments over HTTP, as grants and a payment's chain name them.

A site is a host and a port, spelled in one way: `api.example.com`, `127.0.0.1:4021`, `[::1]:4021`.
Only the port 443 is omitted, whatever the scheme, so that each text means exactly one listener.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from solward.types.errors import InvalidRequest

SITE: Final = "site:"
"""The prefix of a site's principal."""
SITE_PATTERN: Final = r"(?:[a-z0-9.-]{1,253}|\[[0-9a-f:]{2,39}\])(?::[1-9][0-9]{0,4})?"
"""Pattern that matches every site of `read_site`, and other texts without quote, space, comma."""

_SITE: Final = re.compile(r"(?P<host>[^:\[\]]*|\[[^\[\]]*\])(?::(?P<port>[1-9][0-9]{0,4}))?")
_LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
# URL parsers read such a label as part of an IPv4 address: 0x7f.1 and 2130706433 are 127.0.0.1.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
_MAX_NAME: Final = 253
_HTTPS_PORT: Final = 443


def read_site(text: str, path: str) -> str:
    """Return `text` if it is a site in its only spelling; raises `InvalidRequest` naming the path.

    Other spellings are refused, not converted: grants would take them for another site.
    """
    found = _SITE.fullmatch(text)
    if found is None or not _is_host(found["host"]) or int(found["port"] or 1) > 65_535:
        raise InvalidRequest(
            f"{path}: a host in lower case and ASCII, with :port where that is not 443, such as "
            "api.example.com or 127.0.0.1:4021, is expected"
        )
    if found["port"] == str(_HTTPS_PORT):
        raise InvalidRequest(f"{path}: port 443 is expected to be left out")
    return text


def without_default_port(site: str) -> str:
    """Return a site without `:80`, the default port of http, to compare hosts only."""
    return site.removesuffix(":80")


def _is_host(host: str) -> bool:
    if host.startswith("["):
        try:
            address = ipaddress.IPv6Address(host[1:-1])
        except ValueError:
            return False
        # With a zone, it means another host on each machine; with an IPv4 address in it, that host.
        is_plain = address.scope_id is None and address.ipv4_mapped is None
        return is_plain and f"[{address}]" == host
    labels = host.split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(ipaddress.IPv4Address(host)) == host
        except ValueError:
            return False
    return len(host) <= _MAX_NAME and all(map(_LABEL.fullmatch, labels))
