"""Authentication, CORS, error bodies and limits of size, as a browser or a stranger meets them."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import pytest
from tests.promises import promise
from tests.support.processes import SECRET, Service, funded_wallet

DASHBOARD = ("http://localhost:3000", "http://127.0.0.1:3000")
KEY_REQUIRED = {"error": "Unauthorized — API key required"}
KEY_INVALID = {"error": "Invalid API key"}
ADMIN_REQUIRED = {"error": "Unauthorized — admin API secret required"}


@promise("three-401-texts")
def test_the_three_refusals_have_the_contracts_texts(
    contract: Service, client: httpx.Client
) -> None:
    key = client.post("/keys", json={"name": "k"}).json()["apiKey"]
    with httpx.Client(base_url=contract.url) as anybody:
        for path in ("/wallets", "/transactions", "/agents", "/skills"):
            answer = anybody.get(path)
            assert (answer.status_code, answer.json()) == (401, KEY_REQUIRED)
    with contract.client("sk-" + "0" * 32) as stranger:
        answer = stranger.get("/wallets")
        assert (answer.status_code, answer.json()) == (401, KEY_INVALID)
    with contract.client(key) as bot:
        assert bot.get("/wallets").status_code == 200
        for method, path in (
            ("GET", "/keys"),
            ("POST", "/keys"),
            ("POST", "/agents"),
            ("POST", "/agents/x/start"),
            ("POST", "/agents/x/stop"),
        ):
            answer = bot.request(method, path)
            assert (answer.status_code, answer.json()) == (401, ADMIN_REQUIRED)


@pytest.mark.parametrize("origin", [*DASHBOARD, "http://evil.example", "http://localhost:3001"])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/wallets"), ("POST", "/agents/x/start"), ("DELETE", "/keys/x"), ("POST", "/keys")],
)
def test_preflights_pass_for_the_dashboard_alone(
    contract: Service, origin: str, method: str, path: str
) -> None:
    answer = httpx.options(
        contract.url + path,
        headers={
            "Origin": origin,
            "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "authorization,content-type,idempotency-key",
        },
    )
    assert answer.is_success
    assert answer.headers["Vary"] == "Origin"
    if origin not in DASHBOARD:
        assert not [name for name in answer.headers if name.startswith("access-control")]
        return
    assert answer.headers["Access-Control-Allow-Origin"] == origin
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"
    assert method in answer.headers["Access-Control-Allow-Methods"]
    for name in ("authorization", "content-type", "idempotency-key"):
        assert name in answer.headers["Access-Control-Allow-Headers"].lower()


@pytest.mark.parametrize("origin", DASHBOARD)
def test_refusals_can_be_read_by_the_dashboard(contract: Service, origin: str) -> None:
    answer = httpx.get(f"{contract.url}/wallets", headers={"Origin": origin})
    assert answer.status_code == 401
    assert answer.headers["Access-Control-Allow-Origin"] == origin
    assert answer.headers["Access-Control-Allow-Credentials"] == "true"


def test_unknown_routes_and_methods_are_json(client: httpx.Client) -> None:
    missing = client.get("/nowhere")
    assert (missing.status_code, missing.json()) == (404, {"error": "Not found"})
    wrong = client.put("/wallets")
    assert (wrong.status_code, wrong.json()) == (405, {"error": "Method not allowed"})
    outside = httpx.get(str(client.base_url).replace("/api/v1/", "/"))
    assert (outside.status_code, outside.json()) == (404, {"error": "Not found"})


def test_what_is_no_json_is_400(client: httpx.Client) -> None:
    answer = client.post("/wallets", content=b"{'name': 1}")
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": "The request body must be valid JSON"},
    )


def test_a_large_body_is_413_however_it_is_sent(client: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        yield from (b" " * 1024 for _ in range(65))

    for content in (b" " * 65_537, chunks()):
        answer = client.post("/wallets", content=content)
        assert answer.status_code == 413
        assert answer.headers["Connection"] == "close"
        assert list(answer.json()) == ["error"]
        assert "64 KiB" in answer.json()["error"]
    assert client.get("/health").status_code == 200


@promise("body-max-64-kib")
@pytest.mark.parametrize("path", ["/api/v1/wallets", "/mcp"])
def test_a_large_body_is_413_to_a_client_that_writes_all_of_it_first(
    contract: Service, path: str
) -> None:
    part = bytes(64 * 1024)
    for framing, before, after, end in (
        (f"Content-Length: {160 * len(part)}", b"", b"", b""),
        ("Transfer-Encoding: chunked", b"10000\r\n", b"\r\n", b"0\r\n\r\n"),
    ):
        with socket.create_connection(("127.0.0.1", contract.port), 30) as connection:
            head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{contract.port}\r\n{framing}\r\n"
            kind = "Content-Type: application/json\r\n"
            connection.sendall(f"{head}{kind}Authorization: Bearer {SECRET}\r\n\r\n".encode())
            for _ in range(160):
                connection.sendall(before + part + after)
            connection.sendall(end)
            assert connection.makefile("rb").readline().startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize("limit", ["0", "501", "x", "1.5"])
def test_a_limit_outside_1_to_500_is_400(client: httpx.Client, limit: str) -> None:
    answer = client.get("/transactions", params={"limit": limit})
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": "limit must be a whole number from 1 to 500"},
    )
    assert client.get("/transactions", params={"limit": 500}).status_code == 200


@promise("cancel-stops-nothing")
def test_a_caller_who_hangs_up_neither_stops_nor_repeats_a_payment(
    contract: Service, client: httpx.Client
) -> None:
    wallet = funded_wallet(client, "hasty", 1)
    where, path = urlsplit(contract.url), f"/wallets/{wallet}/transfer"
    body = json.dumps({"to": "11111111111111111111111111111112", "amount": 0.1}).encode()
    head = (
        f"POST {where.path}{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {SECRET}\r\n"
        f"Idempotency-Key: hasty\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((where.hostname or "", where.port or 0), timeout=5) as raw:
        raw.sendall(head.encode() + body)
    headers = {"Idempotency-Key": "hasty"}
    deadline = time.monotonic() + 20
    while (answer := client.post(path, content=body, headers=headers)).status_code == 409:
        assert time.monotonic() < deadline
    assert answer.status_code == 200, answer.text
    records = client.get(f"/wallets/{wallet}/transactions").json()["transactions"]
    assert [record["type"] for record in records] == ["transfer", "airdrop"]
    assert records[0]["signature"] == answer.json()["signature"]


def test_bytes_that_are_no_http_take_nothing_down(contract: Service) -> None:
    where = urlsplit(contract.url)
    for junk in (b"\x00\xff\x16\x03\x01", b"GET / HTTP/9.9\r\n\r\n", b"POST /api/v1/keys HT"):
        with socket.create_connection((where.hostname or "", where.port or 0), timeout=5) as raw:
            raw.sendall(junk)
    assert httpx.get(f"{contract.url}/health").status_code == 200
