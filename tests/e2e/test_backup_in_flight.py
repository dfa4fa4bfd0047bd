"""A backup taken while transfers are in flight: restored, the records agree with the ledger.

Each transfer has a recipient and an Idempotency-Key of its own, so that what was paid twice shows.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.clock import wait_until
from tests.support.processes import Service, funded_wallet, sol_of

from solward.support import jsontext

pytestmark = pytest.mark.more

PASSPHRASE = "correct horse battery"
AMOUNT = Decimal("0.001")
FEE = Decimal("0.000005")
CLIENTS = 4
BACKUPS = 3


def solward(home: Path, *arguments: str | Path, typed: str | None = None) -> str:
    """What the command prints, in a home of its own; `typed` is its input."""
    done = subprocess.run(
        [sys.executable, "-m", "solward_cli", *map(str, arguments)],
        env={"PATH": os.environ["PATH"], "SOLWARD_HOME": str(home)},
        cwd=home.parent,
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def pay(client: httpx.Client, wallet: str, to: str) -> str:
    body = jsontext.dumps({"to": to, "amount": AMOUNT})
    headers = {"Idempotency-Key": to, "Content-Type": "application/json"}
    return client.post(f"/wallets/{wallet}/transfer", content=body, headers=headers).text


def records(client: httpx.Client, wallet: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        before = {"before": found[-1]["id"]} if found else {}
        answer = client.get(f"/wallets/{wallet}/transactions", params={"limit": 500} | before)
        page = jsontext.loads(answer.text)["transactions"]
        found += page
        if len(page) < 500:
            return found


def settled(client: httpx.Client, wallet: str) -> list[dict[str, Any]]:
    """Its records, once none of them is pending."""

    def ended() -> list[dict[str, Any]] | None:
        found = records(client, wallet)
        return None if any(record["status"] == "pending" for record in found) else found

    return list(wait_until(ended, "the end of every transaction", 90))


def agrees(client: httpx.Client, wallet: str) -> set[str]:
    """The wallet's balance is what its records say; returns who was paid."""
    paid, expected = set(), Decimal(0)
    for record in settled(client, wallet):
        if record["status"] != "confirmed":
            continue
        if record["type"] == "airdrop":
            expected += Decimal(record["details"]["amount"])
        else:
            assert record["details"]["to"] not in paid
            paid.add(record["details"]["to"])
            expected -= AMOUNT + FEE
    assert sol_of(client, wallet) == expected
    return paid


@pytest.mark.long
@promise("restored-backup-pays-once")
@pytest.mark.timeout(240)
def test_what_is_restored_agrees_with_its_ledger_and_pays_nobody_twice(tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text(PASSPHRASE)
    words.chmod(0o600)
    limits = {"DAILY_SPENDING_LIMIT_SOL": "1000", "LOCALNET_SLOT_MS": "200"}
    service = Service(tmp_path / "home", **limits).start()
    recipients: list[str] = []
    stop = Event()
    try:
        with service.client() as client:
            wallet = funded_wallet(client, "payer", 20)

        def keep_paying() -> None:
            with service.client() as mine:
                while not stop.is_set():
                    to = str(Keypair().pubkey())
                    recipients.append(to)
                    assert "confirmed" in (told := pay(mine, wallet, to)), told

        with ThreadPoolExecutor(CLIENTS) as pool:
            paying = [pool.submit(keep_paying) for _ in range(CLIENTS)]
            try:
                for number in range(BACKUPS):
                    time.sleep(0.5)
                    file = tmp_path / f"{number}.backup"
                    solward(service.home, "backup", "--passphrase-file", words, file)
            finally:
                stop.set()
            for each in paying:
                # Taking a backup held up nobody for long enough to fail.
                each.result()
    finally:
        service.stop()
    counts = []
    for number in range(BACKUPS):
        home = tmp_path / f"restored-{number}"
        told = solward(home, "restore", "--passphrase-file", words, tmp_path / f"{number}.backup")
        assert "1 of 1 keys open and match" in told
        restored = Service(home, **limits).start()
        try:
            with restored.client() as client:
                paid = agrees(client, wallet)
                counts.append(len(paid))
                assert paid <= set(recipients)
                nobody = str(Keypair().pubkey())
                assert "frozen: restored from the backup of" in pay(client, wallet, nobody)
                assert client.post("/unfreeze").status_code == 200
                # Who asks again with the same key, not knowing of the restore, pays once.
                for to in recipients[:40]:
                    pay(client, wallet, to)
                again = agrees(client, wallet)
                assert again == paid | set(recipients[:40])
        finally:
            restored.stop()
    assert counts == sorted(counts)
    assert counts[-1] > counts[0] > 0


@pytest.mark.timeout(240)
def test_a_home_whose_service_was_killed_is_backed_up_as_it_was_left(tmp_path: Path) -> None:
    words = tmp_path / "words"
    words.write_text(PASSPHRASE)
    words.chmod(0o600)
    service = Service(tmp_path / "home", LOCALNET_SLOT_MS="200").start()
    recipients = [str(Keypair().pubkey()) for _ in range(40)]
    with service.client() as client:
        wallet = funded_wallet(client, "payer", 2)

        def pay_quietly(to: str) -> None:
            with contextlib.suppress(httpx.TransportError), service.client() as mine:
                pay(mine, wallet, to)

        with ThreadPoolExecutor(CLIENTS) as pool:
            paying = [pool.submit(pay_quietly, to) for to in recipients]
            while not paying[8].done():
                time.sleep(0.01)
            service.stop(signal.SIGKILL)
    solward(service.home, "backup", "--passphrase-file", words, tmp_path / "made")
    solward(tmp_path / "new", "restore", "--passphrase-file", words, tmp_path / "made")
    restored = Service(tmp_path / "new", LOCALNET_SLOT_MS="200").start()
    try:
        with restored.client() as client:
            paid = agrees(client, wallet)
            assert 8 <= len(paid) < len(recipients)
            # One that was killed between its reservation and its signature was given back, and its
            # key says so for ever; so was one that expired before its ledger was there again.
            failed = [each for each in records(client, wallet) if each["status"] == "failed"]
            told = [each["error"] for each in failed]
            assert all(re.search("nothing was (sent|paid)", each) for each in told), told
            assert client.post("/unfreeze").status_code == 200
            for to in recipients:
                pay(client, wallet, to)
            released = {each["details"]["to"] for each in failed}
            assert agrees(client, wallet) == set(recipients) - released
    finally:
        restored.stop()
