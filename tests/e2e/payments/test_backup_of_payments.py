"""A backup with payments that are handed over: the restored home starts frozen, watches them, and
pays nobody twice."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from solders.keypair import Keypair
from tests.e2e.payments.buyers import Buyer, may_pay, rpc_of, with_ledger
from tests.e2e.payments.settling_seller import SettlingSeller
from tests.e2e.payments.stage import Ledger
from tests.e2e.test_backup_in_flight import PASSPHRASE, solward
from tests.promises import promise
from tests.support.processes import Service

pytestmark = [pytest.mark.more, pytest.mark.timeout(240)]

PRICE = 50_000


@dataclass
class Restored:
    """A restored home that serves, and what was handed over before its backup.

    Attributes:
        first: id of a payment that had landed, under the Idempotency-Key `first`.
        alive: of one that had not, under `alive`.
        answer: to that one.
    """

    buyer: Buyer
    seller: SettlingSeller
    first: str
    alive: str
    answer: object


@contextmanager
def restored(tmp: Path, slot_ms: int) -> Iterator[Restored]:
    """Pay, leave a payment alive, back up, stop for good, restore elsewhere, start."""
    words = tmp / "words"
    words.write_text(PASSPHRASE)
    words.chmod(0o600)
    with SettlingSeller() as seller:
        slots = {"LOCALNET_SLOT_MS": str(slot_ms)}
        service = started(tmp / "home", seller, slots)
        try:
            with Ledger.with_giver(rpc_of(service)) as ledger:
                seller.on(ledger)
                buyer = Buyer.made(service, ledger, may_pay(seller.site))
                first = buyer.paid(seller.url, key="first")["payment"]
                buyer.ended(first["id"])
                seller.act = seller.keeps
                alive = buyer.paid(seller.url, key="alive")
                assert alive["payment"]["state"] == "handed_over"
                solward(service.home, "backup", "--passphrase-file", words, tmp / "made")
        finally:
            service.stop()
        home = tmp / "restored"
        told = solward(home, "restore", "--passphrase-file", words, tmp / "made")
        assert "1 of 1 keys open and match" in told
        service = started(home, seller, slots)
        try:
            with Ledger(rpc_of(service), giver=ledger.giver) as ledger:
                seller.ledger = ledger
                buyer = replace(buyer, service=service, ledger=ledger)
                yield Restored(buyer, seller, first["id"], alive["payment"]["id"], alive)
        finally:
            service.stop()


def started(home: Path, seller: SettlingSeller, settings: dict[str, str]) -> Service:
    service = with_ledger(home, seller.site)
    service.environment |= settings
    return service.start()


def unfreeze(service: Service) -> None:
    with service.client() as admin:
        assert admin.post("/unfreeze").status_code == 200


def never(_: Restored) -> None:
    """The seller never settles."""


def settle(place: Restored) -> None:
    """The seller settles on the restored ledger what it was handed before."""
    place.seller.settle(place.seller.handed[-1])


@promise("restored-payment-watched")
@pytest.mark.parametrize(
    ("slot_ms", "does", "state", "paid"),
    [(400, settle, "landed", 2), (100, never, "expired", 1)],
    ids=["settles later", "never settles"],
)
def test_a_restored_home_starts_frozen_watches_what_was_handed_over_and_pays_nobody_twice(
    tmp_path: Path, slot_ms: int, does: Callable[[Restored], None], state: str, paid: int
) -> None:
    with restored(tmp_path, slot_ms) as place:
        buyer, seller = place.buyer, place.seller
        shown = len(seller.handed)
        assert "frozen: restored from the backup of" in buyer.refused(seller.url, key="new")
        does(place)
        ended = buyer.ended(place.alive)
        assert (ended["state"], ended["served"]) == (state, "no")
        assert (ended.get("signature") is not None) == (state == "landed")
        assert buyer.payment(place.first)["state"] == "landed"
        assert buyer.spent() == seller.took == paid * PRICE
        assert buyer.counted() == paid * PRICE

        unfreeze(buyer.service)
        # Who asks again with the same keys, not knowing of the restore, pays nothing.
        seller.act = seller.settles
        assert buyer.paid(seller.url, key="first")["payment"]["id"] == place.first
        again = buyer.paid(seller.url, key="alive")
        assert again["payment"]["id"] == place.alive
        assert again["response"]["status"] == 500
        assert len(seller.handed) == shown
        assert buyer.spent() == paid * PRICE

        new = buyer.paid(seller.url, key="later")["payment"]
        assert buyer.ended(new["id"])["state"] == "landed"
        assert buyer.spent() == seller.took == (paid + 1) * PRICE


@promise("sweep-waits-for-payments")
def test_a_sweep_waits_for_what_was_handed_over(tmp_path: Path) -> None:
    with SettlingSeller() as seller:
        service = started(tmp_path / "home", seller, {})
        try:
            with Ledger.with_giver(rpc_of(service)) as ledger:
                seller.on(ledger)
                buyer = Buyer.made(service, ledger, may_pay(seller.site), lamports=10_000_000)
                seller.act = seller.keeps
                alive = buyer.paid(seller.url, protocol="x402")["payment"]
                assert alive["status"] == "pending"
                with service.client() as admin:
                    vault = admin.post("/wallets", json={"name": "vault"}).json()
                grants = [
                    {"may": ["fund"], "assets": {"USDC": {"per": {"24h": "5"}}}, "to": ["own"]}
                ]
                with service.client() as admin:
                    granted = admin.put(f"/policy/wallet:{buyer.wallet}", json={"grants": grants})
                    assert granted.status_code == 200, granted.text
                address = re.sub(r"/api/v1$", "", service.url)
                sweep = [buyer.wallet, vault["address"]]
                swept = subprocess.run(
                    [sys.executable, "-m", "solward_cli", "wallet", "sweep", "--yes", *sweep],
                    env=service.environment | {"SOLWARD_API_URL": address},
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
                waited = "waiting: 1 transactions of the wallet are pending"
                assert waited in swept.stdout + swept.stderr
                assert buyer.payment(alive["id"])["state"] == "expired", swept.stdout
                assert ledger.usdc(vault["address"]) == buyer.usdc, swept.stdout + swept.stderr
        finally:
            service.stop()


def test_a_key_that_is_exported_meanwhile_changes_nothing_of_what_was_handed_over(
    tmp_path: Path,
) -> None:
    with SettlingSeller() as seller:
        service = started(tmp_path / "home", seller, {"LOCALNET_SLOT_MS": "400"})
        try:
            with Ledger.with_giver(rpc_of(service)) as ledger:
                seller.on(ledger)
                buyer = Buyer.made(service, ledger, may_pay(seller.site))
                seller.act = seller.keeps
                alive = buyer.paid(seller.url, key="alive")["payment"]
                assert alive["state"] == "handed_over"
                service.stop()
                out, typed = tmp_path / "key.json", f"{buyer.address}\n"
                solward(service.home, "wallet", "export", buyer.wallet, "--out", out, typed=typed)
                assert str(Keypair.from_json(out.read_text()).pubkey()) == buyer.address
                service.start()
                assert buyer.counted() == PRICE
                seller.settle(seller.handed[0])
                assert buyer.ended(alive["id"])["state"] == "landed"
                assert buyer.spent() == buyer.counted() == seller.took == PRICE
        finally:
            service.stop()
