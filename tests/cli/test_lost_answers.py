"""A payment's answer that is lost on its way to the command: its key is printed, and pays once."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal

import httpx
import pytest
from tests.support.cli import STRANGER, Live
from tests.support.http import Handler, served_in_thread
from tests.support.processes import NO_TLS, SECRET

PAYS = ("transfer", "run")


@dataclass
class Gateway:
    """A program before the service that passes requests on, and answers payments by itself.

    Attributes:
        live: commands that call the gateway.
        service: address of the service.
        answer: status and content in place of a payment's answer; None keeps that.
        paid: set once a payment was answered to the gateway.
        open: what a payment's answer waits for.
    """

    live: Live
    service: str
    answer: tuple[int, bytes] | None = (504, b"<html>")
    paid: threading.Event = field(default_factory=threading.Event)
    open: threading.Event = field(default_factory=threading.Event)


@pytest.fixture
def gateway(live: Live) -> Iterator[Gateway]:
    class Serving(Handler):
        def get(self) -> None:
            kept = ("Authorization", "Content-Type", "Idempotency-Key")
            headers = {name: self.headers[name] for name in kept if name in self.headers}
            got = httpx.request(
                self.command,
                made.service + self.path,
                content=self.body(),
                headers=headers,
                timeout=60,
                verify=NO_TLS,
            )
            if self.command == "POST" and self.path.endswith(PAYS):
                made.paid.set()
                made.open.wait(60)
                if made.answer is not None:
                    self.reply(*made.answer)
                    return
            passed = {name: got.headers[name] for name in ("Content-Type", "Solward-Api")}
            self.reply(got.status_code, got.content, passed)

    with served_in_thread(Serving) as url:
        made = Gateway(Live(url, live.home), live.url)
        made.open.set()
        yield made
        made.open.set()


def told_key(stderr: str) -> str:
    """The key of the last line, as a shell takes it."""
    words = shlex.split(stderr.splitlines()[-1].rpartition("--idempotency-key ")[2])
    assert len(words) == 1, stderr
    return words[0]


@pytest.mark.parametrize("given", [(), ("--idempotency-key", "rent  2026's 12")])
def test_a_gateways_answer_is_told_with_the_key_which_pays_once(
    live: Live, gateway: Gateway, given: tuple[str, ...]
) -> None:
    wallet = live.wallet()
    command = ("wallet", "transfer", wallet, STRANGER, "0.5")
    lost = gateway.live.invoke(*command, *given)
    assert (lost.exit_code, lost.stdout) == (1, "")
    error, again = lost.stderr.splitlines()
    assert "whether the transaction was made is not known" in error
    key = told_key(lost.stderr)
    assert again == f"Ask again with --idempotency-key {shlex.quote(key)}"
    assert given[1:] in ((), (key,))
    gateway.answer = None
    gateway.live.run(*command, "--idempotency-key", key)
    sol = Decimal(live.json("wallet", "balance", wallet)["sol"])
    assert sol == Decimal("1.5") - Decimal("0.000005")


def test_a_key_with_a_space_at_its_end_is_refused_before_it_is_sent(live: Live) -> None:
    command = ("wallet", "transfer", live.wallet(), STRANGER, "0.5")
    told = live.error(*command, "--idempotency-key", "rent ")
    assert "without a space at either end; nothing was sent" in told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_payment_that_is_interrupted_leaves_its_key(
    live: Live, gateway: Gateway, number: signal.Signals
) -> None:
    wallet = live.wallet()
    gateway.open.clear()
    command = ("wallet", "transfer", wallet, STRANGER, "0.5")
    environment = {
        "SOLWARD_API_URL": gateway.live.url,
        "SOLWARD_API_KEY": SECRET,
        "SOLWARD_HOME": str(live.home),
    }
    with subprocess.Popen(
        [sys.executable, "-m", "solward_cli", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        preexec_fn=_heeds_signals,
    ) as paying:
        assert gateway.paid.wait(30)
        paying.send_signal(number)
        out, errors = paying.communicate(timeout=20)
    assert out == ""
    assert errors.startswith("Interrupted; the payment may have been made. Ask again with ")
    assert paying.returncode == (130 if number == signal.SIGINT else -number)
    live.run(*command, "--idempotency-key", told_key(errors))
    records = live.json("tx", "list", "--wallet", wallet)["transactions"]
    assert [record["type"] for record in records] == ["transfer", "airdrop"]


def _heeds_signals() -> None:
    # What a shell starts in the background ignores some of them, and so do its children.
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
