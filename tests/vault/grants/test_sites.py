"""Sites have one spelling each: what only looks like one, or means the same, is refused by name."""

from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.promises import promise

from solward.operations.payments.requests import address_of
from solward.types.errors import InvalidRequest
from solward.types.manifest import Site, site_name
from solward.types.site import SITE_PATTERN, read_site

SITES = [
    "api.example.com",
    "api.example.com:8443",
    "api.example.com:80",
    "localhost:4021",
    "127.0.0.1:4021",
    "8.8.8.8",
    "[::1]:4021",
    "[2001:db8::1]",
    "xn--80ak6aa92e.com",
    "a-b.c1.example",
    "r3---sn-1.example.com",
    f"{'a' * 63}.example:65535",
]


@pytest.mark.parametrize("text", SITES)
def test_a_site_is_read_as_it_is_written(text: str) -> None:
    assert read_site(text, "via") == text


@promise("site-has-one-spelling")
@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "API.example.com",
        "api.example.com.",
        ".example.com",
        "api..example.com",
        "-api.example.com",
        "api-.example.com",
        "api_1.example.com",
        "*.example.com",
        " api.example.com",
        "api.example.com\n",
        "api.example.com ",
        "user@api.example.com",
        "user:word@api.example.com",
        "https://api.example.com",
        "api.example.com/",
        "api.example.com?a",
        "api.example.com#a",
        "api.example.com\\@evil.example",
        "api.example.com%2eevil.example",
        "api.example.com,evil.example",
        "api.example.com or evil.example",
        "аpi.example.com",
        "apı.example.com",
        "api。example.com",
        "ａpi.example.com",
        "bücher.example",
        "xn--.example",
        "xn--abc-.example",
        "api.example.com:",
        "api.example.com:0",
        "api.example.com:080",
        "api.example.com:+80",
        "api.example.com:٨٠",
        "api.example.com:65536",
        "api.example.com:99999",
        "api.example.com:80:80",
        "127.1",
        "127.0.0.01",
        "0x7f.0.0.1",
        "0x7f000001",
        "2130706433",
        "127.0.0.1.1",
        "256.0.0.1",
        "example.1",
        "example.0x",
        "::1",
        "[::1",
        "[::0001]",
        "[0:0:0:0:0:0:0:1]",
        "[2001:DB8::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[fe80::1%eth0]",
        "[127.0.0.1]",
        "[]",
        f"{'a' * 64}.example",
        ".".join(["a" * 63] * 4),
    ],
)
def test_what_only_looks_like_a_site_or_is_written_otherwise_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^via\[2\]: a host in lower case and ASCII, "):
        read_site(text, "via[2]")


@promise("port-443-left-out")
@pytest.mark.parametrize("text", ["api.example.com:443", "[::1]:443"])
def test_the_port_of_https_has_one_spelling(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^via: port 443 is expected to be left out$"):
        read_site(text, "via")


@promise("site-has-one-spelling")
@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://api.example.com/a?b", "api.example.com"),
        ("https://API.Example.com:443/", "api.example.com"),
        ("https://api.example.com:8443/", "api.example.com:8443"),
        ("https://bücher.example/", "xn--bcher-kva.example"),
        ("http://127.0.0.1:4021/", "127.0.0.1:4021"),
        ("http://[::1]:4021/", "[::1]:4021"),
        ("https://api.example.com./", None),
        ("https://[0:0::1]/", None),
        ("https://[::ffff:127.0.0.1]/", None),
        ("https://0x7f.1/", None),
        ("https://127.1/", None),
        ("https://xn--.example/", None),
        ("https://user@api.example.com/", None),
    ],
)
def test_a_request_has_the_site_that_its_connection_is_made_to(url: str, site: str | None) -> None:
    if site is None:
        with pytest.raises(InvalidRequest, match=r"^url"):
            address_of(url, "url")
    else:
        assert site_name(address_of(url, "url")[1]) == site


@promise("port-443-left-out")
def test_http_and_https_of_one_host_are_two_sites() -> None:
    assert site_name(Site("https", "127.0.0.1", 443)) == "127.0.0.1"
    assert site_name(Site("http", "127.0.0.1", 80)) == "127.0.0.1:80"
    assert site_name(Site("http", "127.0.0.1", 443)) == "127.0.0.1"


@given(text=st.one_of(st.from_regex(SITE_PATTERN, fullmatch=True), st.text()))
def test_what_is_read_is_a_host_and_a_port_and_nothing_else(text: str) -> None:
    try:
        site = read_site(text, "via")
    except InvalidRequest:
        return
    assert site == text
    url = httpx.URL(f"https://{site}/")
    assert url.scheme == "https"
    assert url.userinfo == b""
    assert url.raw_path == b"/"
    assert site_name(address_of(f"https://{site}/", "url")[1]) == site
