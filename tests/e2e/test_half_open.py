"""Sockets that never send a request do not stop payments."""

from __future__ import annotations

import contextlib
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.promises import promise
from tests.support.processes import Service
from tests.support.services import STRANGER

HALF_OPEN = 1_200
_BEGUN = (b"", b"P", b"POST /api/v1/wallets HTTP/1.1\r\nX-Slow: ")


def _half_open(service: Service, stack: contextlib.ExitStack) -> None:
    where = urlsplit(service.url)
    for number in range(HALF_OPEN):
        held = socket.create_connection((where.hostname or "", where.port or 0), timeout=10)
        stack.enter_context(held)
        # Those that came first are closed for the later ones.
        with contextlib.suppress(ConnectionError):
            held.sendall(_BEGUN[number % len(_BEGUN)])


@promise("idle-connections-yield")
@pytest.mark.more
@pytest.mark.parametrize("open_files", [1_024, 4_096])
def test_payments_pass_while_1200_sockets_are_half_open(services: Any, open_files: int) -> None:
    service: Service = services()
    # The hard limit, which no process without privileges raises again.
    service.python = "/bin/sh"
    limited = f'ulimit -n {open_files} && exec "$0" "$@"'
    service.program = ("-c", limited, sys.executable, "-m", "solward_cli")
    service.start()
    with contextlib.ExitStack() as stack, service.client() as kept:
        wallet = kept.post("/wallets", json={}).json()["walletId"]
        assert kept.post(f"/wallets/{wallet}/airdrop", json={"amount": 1}).status_code == 200
        _half_open(service, stack)
        body = {"to": STRANGER, "amount": 0.01}
        for client in (kept, stack.enter_context(service.client())):
            answer = client.post(f"/wallets/{wallet}/transfer", json=body)
            assert answer.status_code == 200, answer.text
            assert answer.json()["status"] == "confirmed"
        records = kept.get(f"/wallets/{wallet}/transactions").json()["transactions"]
        assert [record["type"] for record in records] == ["transfer", "transfer", "airdrop"]
