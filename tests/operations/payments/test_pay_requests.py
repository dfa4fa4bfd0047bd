"""What a caller may ask for: addresses, headers, bodies, and the most to pay."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from tests.promises import promise

from solward.operations.payments.requests import (
    read_request,
    shown_headers,
)
from solward.resources.payments import PaidRequest
from solward.types.errors import InvalidRequest
from solward.types.payment import MAX_BODY_BYTES, PayRequest

URL = "https://api.example.com/weather"


def refused(text: str, url: str = URL, **fields: Any) -> None:
    with pytest.raises(InvalidRequest, match=text):
        read_request(PayRequest(url, **fields), needs_most=False)


def test_an_address_is_requested_in_one_spelling() -> None:
    found = read_request(
        PayRequest("HTTPS://API.Example.com:443/a b?q=é&key=secret"), needs_most=False
    )
    assert found.url == "https://api.example.com/a%20b?q=%C3%A9&key=secret"
    assert (found.site.host, found.site.port, found.path) == (
        "api.example.com",
        443,
        "/a%20b?q=%C3%A9&key=secret",
    )
    assert found.shown_url == "https://api.example.com/a%20b"


@promise("spellings-are-one-address")
@pytest.mark.parametrize("path", ["/a-b/%C3%A9", "/%61%2Db/%c3%a9", "/%61-%62/%c3%A9?q=%61"])
def test_what_is_kept_of_an_address_is_in_one_spelling(path: str) -> None:
    """Or its price could rise unseen; the request goes as it was asked for."""
    found = read_request(PayRequest(f"https://api.example.com{path}"), needs_most=False)
    assert found.shown_url == "https://api.example.com/a-b/%C3%A9"
    assert found.path == path


@pytest.mark.parametrize("fragment", ["#", "#part", "#a/é?b#c", "#!/route"])
def test_a_fragment_is_not_sent(fragment: str) -> None:
    url = "https://api.example.com/a?b=c"
    found = read_request(PayRequest(url + fragment), needs_most=False)
    assert found == read_request(PayRequest(url), needs_most=False)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "api.example.com",
        "ftp://api.example.com/",
        "file:///etc/passwd",
        "https://user:secret@api.example.com/",
        "https://user@api.example.com/",
        "https://",
        "https://0177.0.0.1/",
        "https://api.example.com:0/",
        "https://api.example.com:99999/",
        "https://api.example.com\\@evil.example/",
        "https://api.example.com\n.evil.example/",
        " https://api.example.com/",
        "https://[::1%25eth0]/",
        f"https://api.example.com/{'a' * 9000}",
    ],
)
def test_what_is_no_address_of_a_site_is_refused(url: str) -> None:
    refused("url must be an https:// address", url)


@pytest.mark.parametrize(
    "name",
    ["Host", "content-length", "Transfer-Encoding", "Connection", "TE", "Upgrade", "Expect"],
)
def test_headers_of_the_connection_are_the_services(name: str) -> None:
    refused(f"headers: {name} is set by the service", headers={name: "1"})


@promise("caller-shows-no-payment", "headers-show-no-payment")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X-PAYMENT", "abc"),
        ("payment-signature", "abc"),
        ("Authorization", "Payment abc"),
        ("authorization", "payment\tabc"),
    ],
)
def test_nobody_but_the_service_shows_a_payment(name: str, value: str) -> None:
    refused(f"headers: {name} sends a payment", headers={name: value})


@pytest.mark.parametrize(
    "headers",
    [
        {"a b": "1"},
        {"": "1"},
        {"X\r\nHost": "1"},
        {"X": "1\r\nX-Payment: 2"},
        {"X": "é"},
        {"X": " 1"},
        {"X": "\x00"},
        {"X": "1", "x": "2"},
        {f"X-{n}": "" for n in range(65)},
        {"X": "a" * 8_193},
    ],
)
def test_headers_that_others_would_read_otherwise_are_refused(headers: dict[str, str]) -> None:
    refused("headers", headers=headers)


def test_a_value_of_a_header_is_in_no_error() -> None:
    with pytest.raises(InvalidRequest) as error:
        read_request(PayRequest(URL, headers={"X-Api-Key": "sécret"}), needs_most=False)
    assert "cret" not in str(error.value)


def test_bodies_are_bounded_and_belong_to_methods_that_have_one() -> None:
    refused("body must not be larger than 1 MiB", method="POST", body=b"x" * (MAX_BODY_BYTES + 1))
    refused("body must be absent: a GET request", body=b"x")
    refused("method must be one of GET, HEAD", method="CONNECT")


def test_the_most_to_pay_is_required_of_who_is_not_the_operator() -> None:
    with pytest.raises(InvalidRequest, match="max must be an amount"):
        read_request(PayRequest(URL), needs_most=True)
    found = read_request(PayRequest(URL, max="0.05 USDC"), needs_most=True)
    assert found.max_price is not None
    assert (found.max_price.amount, found.max_price.asset) == (Decimal("0.05"), "USDC")


def test_the_same_request_is_known_again_and_another_is_not() -> None:
    def print_of(url: str = URL, **fields: Any) -> str:
        return read_request(PayRequest(url, **fields), needs_most=False).fingerprint

    same = print_of(headers={"A": "1", "B": "2"})
    assert same == print_of(headers={"b": "2", "a": "1"}, max="1 USDC", protocol="x402")
    others = [
        print_of(headers={"A": "1"}),
        print_of(f"{URL}?q=1"),
        print_of(method="POST"),
        print_of(method="POST", body=b"1"),
    ]
    assert len({same, *others}) == 5


def test_fields_of_a_json_object_are_typed() -> None:
    for name, value in (("url", 1), ("body", {}), ("max", 5), ("protocol", True)):
        with pytest.raises(InvalidRequest, match=f"{name} must be a string"):
            PaidRequest.of({"url": URL, name: value})
    with pytest.raises(InvalidRequest, match="url is required"):
        PaidRequest.of({})
    with pytest.raises(InvalidRequest, match="headers must be an object of strings"):
        PaidRequest.of({"url": URL, "headers": {"A": 1}})
    assert (
        PaidRequest.of({"url": URL, "method": None, "body": "é"}).pay_request.body == "é".encode()
    )


@promise("headers-show-no-payment")
@pytest.mark.parametrize(
    "made",
    [{}, {"Host": "a"}, {"X": "a\r\nb"}, {"Content-Length": "1"}, {"X": "a" * 40_000}],
)
def test_a_protocol_cannot_change_where_a_request_goes_or_ends(made: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="bad made headers that cannot be sent"):
        shown_headers(made, "bad")
