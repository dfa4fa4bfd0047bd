"""A service in a process of its own that can be killed, and a client that talks to it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import ssl
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
from tests.support import databases

ARMED = Path(__file__).with_name("armed_service.py")
# Made once: reading the system's certificates for each client takes 20 ms of processor time, which
# the process that starts up beside it could use.
NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
SECRET = "a-secret-for-tests-of-at-least-32-bytes"


# Below those that Linux gives to connections which name none (`ip_local_port_range`): a service
# that is killed listens on its port again, and no connection may have got it meanwhile.
_PORTS = range(20_000, 32_768)


def free_port() -> int:
    """A port nothing listens on, and that no connection gets by itself."""
    while True:
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


class Service:
    """One SOLWARD_HOME, and the process that serves it now."""

    def __init__(self, home: Path, **environment: str) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/api/v1"
        self.environment = {
            "PATH": os.environ["PATH"],
            "SOLWARD_HOME": str(home),
            "API_SECRET": SECRET,
            "MAX_TRANSACTIONS_PER_MINUTE": "100000",
        } | environment
        self.environment |= databases.environment(home, environment)
        self.process: subprocess.Popen[bytes] | None = None
        self.python = sys.executable
        self.program: tuple[str, ...] = ("-m", "solward_cli")
        self.starting: tuple[str, ...] = ("server", "start")
        self.alive = f"{self.url}/health"
        self.log = home.parent / "service.log"
        self.patience_s = 60.0

    def start(self, armed: str | None = None) -> Service:
        """Start and wait until it serves."""
        self.launch(armed)
        return self.serving()

    def launch(self, armed: str | None = None) -> None:
        """Start and do not wait."""
        command = [self.python, *self.program]
        if armed is not None:
            command = [self.python, str(ARMED), armed]
        log = self.log.open("ab")
        self.process = subprocess.Popen(
            [*command, *self.starting, "--port", str(self.port)],
            env=self.environment,
            stdout=log,
            stderr=log,
            cwd=self.home.parent,
        )
        log.close()

    def serving(self) -> Service:
        """Wait until what was launched serves."""
        assert self.process is not None
        deadline = time.monotonic() + self.patience_s
        with httpx.Client(verify=NO_TLS, timeout=2) as client:
            while time.monotonic() < deadline:
                if self.process.poll() is not None:
                    break
                try:
                    if client.get(self.alive).status_code == 200:
                        return self
                except httpx.TransportError:
                    pass
                time.sleep(0.05)
        raise AssertionError(self.log.read_text()[-4000:])

    def wait_killed(self) -> None:
        """Wait for the process to be gone by its own SIGKILL."""
        assert self.process is not None
        assert self.process.wait(30) == -signal.SIGKILL

    def stop(self, with_signal: int = signal.SIGTERM) -> int:
        """End the process and wait for it."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(with_signal)
        return self.process.wait(30)

    def client(self, token: str = SECRET, **options: Any) -> httpx.Client:
        """An HTTP client with a bearer token."""
        return httpx.Client(
            base_url=self.url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
            verify=NO_TLS,
            **options,
        )


def funded_wallet(client: httpx.Client, name: str, sol: int) -> str:
    """A new wallet holding `sol` SOL, two at a time from the faucet."""
    wallet = str(client.post("/wallets", json={"name": name}).json()["walletId"])
    while sol > 0:
        part = min(sol, 2)
        answer = client.post(f"/wallets/{wallet}/airdrop", json={"amount": part})
        assert answer.status_code == 200, answer.text
        sol -= part
    return wallet


def sol_of(client: httpx.Client, wallet: str) -> Decimal:
    """A wallet's balance as the ledger has it."""
    answer = client.get(f"/wallets/{wallet}/balance")
    return Decimal(str(answer.json()["sol"]))
