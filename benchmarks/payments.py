"""A payment from the seller's 402 to the signed header, beside a plain transfer from its call to
its signed bytes: at most 1.5 times as long.

Both end where the bytes are stored and may leave; what is in between is the service's own: reading
the offer, choosing, building, simulating, judging, reserving, signing, storing. The seller answers
in this process and settles after each payment, outside what is measured.
"""

from __future__ import annotations

import base64
import statistics
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.report import Ratio
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.transaction import VersionedTransaction
from spl.token.instructions import create_idempotent_associated_token_account

from solward.operations.payments.requests import SellerRequest, SiteAnswer, Sites
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.protocol import CHAIN_IDS
from solward.support import jsontext
from solward.telemetry.logs import configure
from solward.types.payment import HttpAnswer, PayRequest, Served
from solward.types.roles import ADMIN
from solward.vault.money.request import Actor
from solward.vault.money.steps import Step
from solward_localnet.market import POOLS
from solward_localnet.node import Localnet

COUNT = 100
AT_MOST = 1.5
URL = "https://api.example.com/forecast"
USDC = next(pool for pool in POOLS if pool.symbol == "USDC")


class Moments:
    """When each step of the money path was passed last."""

    def __init__(self) -> None:
        self.at: dict[Step, float] = {}

    def __call__(self, step: Step) -> None:
        self.at[step] = time.perf_counter()


class Shop(Sites):
    """A seller by x402 without a connection; `taken` is what each payment took, in seconds."""

    def __init__(self, localnet: Localnet) -> None:
        super().__init__()
        self.localnet = localnet
        self.sponsor, self.pay_to = Keypair(), Keypair().pubkey()
        self.taken: list[float] = []
        offer = {
            "scheme": "exact",
            "network": CHAIN_IDS["devnet"],
            "asset": str(USDC.mint),
            "amount": "10000",
            "payTo": str(self.pay_to),
            "maxTimeoutSeconds": 60,
            "extra": {"feePayer": str(self.sponsor.pubkey())},
        }
        required = {"x402Version": 2, "resource": {"url": URL}, "accepts": [offer]}
        self._required = base64.b64encode(jsontext.dumps(required).encode()).decode()
        self._asked = 0.0

    async def request(
        self,
        request: SellerRequest,
        within_s: float,
        headers: tuple[tuple[str, str], ...] = (),
        *,
        who: str = ADMIN,
    ) -> SiteAnswer:
        """402, then what was paid for."""
        now = time.perf_counter()
        shown = dict(headers).get("PAYMENT-SIGNATURE")
        if shown is None:
            answer = (("PAYMENT-REQUIRED", self._required),)
            self._asked = time.perf_counter()
            return SiteAnswer(HttpAnswer(request.url, "GET", 402, answer))
        self.taken.append(now - self._asked)
        payload: Any = jsontext.loads(base64.b64decode(shown))
        signature = await self._settle(base64.b64decode(payload["payload"]["transaction"]))
        settled = {"success": True, "transaction": signature, "network": CHAIN_IDS["devnet"]}
        told = base64.b64encode(jsontext.dumps(settled).encode()).decode()
        return SiteAnswer(HttpAnswer(request.url, "GET", 200, (("PAYMENT-RESPONSE", told),)))

    async def open(self) -> None:
        """The sponsor's SOL and the seller's account."""
        payer = self.sponsor.pubkey()
        await self.localnet.call("requestAirdrop", [str(payer), 1_000_000_000])
        latest = await self.localnet.call("getLatestBlockhash")
        opening = create_idempotent_associated_token_account(payer, self.pay_to, USDC.mint)
        blockhash = Hash.from_string(latest["value"]["blockhash"])
        message = MessageV0.try_compile(payer, [opening], [], blockhash)
        await self._send(VersionedTransaction(message, [self.sponsor]))

    async def _settle(self, wire: bytes) -> str:
        transaction = VersionedTransaction.from_bytes(wire)
        own = self.sponsor.sign_message(to_bytes_versioned(transaction.message))
        signatures = [own, *transaction.signatures[1:]]
        return await self._send(VersionedTransaction.populate(transaction.message, signatures))

    async def _send(self, transaction: VersionedTransaction) -> str:
        wire = base64.b64encode(bytes(transaction)).decode()
        options = {"encoding": "base64", "preflightCommitment": "processed"}
        return str(await self.localnet.call("sendTransaction", [wire, options]))


async def _transfer_s(service: Solward, moments: Moments, wallet: str, actor: Actor) -> float:
    to = str(Keypair().pubkey())
    started = time.perf_counter()
    await service.operations.perform(
        "transfer", wallet, actor, {"to": to, "amount": Decimal("0.002")}
    )
    return moments.at[Step.WRITTEN_AHEAD] - started


async def measure(tmp: Path) -> Iterator[Ratio]:
    """The p50 of payments and transfers, in turn."""
    configure("error")
    moments = Moments()
    settings = Settings(
        _env_file=None,
        solward_home=tmp / "payments",
        localnet_slot_ms=200,
        payments_localnet_as="devnet",
        max_transactions_per_minute=100_000,
        max_costs_sol_per_day="1",
    )
    transfers: list[float] = []
    async with Solward.open(settings, step_hook=moments) as service:
        assert service.localnet is not None
        shop = service.payments.sites = Shop(service.localnet)
        await shop.open()
        actor = Actor("admin")
        wallet = (await service.wallets.create("payer")).id
        await service.operations.perform("airdrop", wallet, actor, {"amount": 2})
        swap = {"inputToken": "SOL", "outputToken": "USDC", "amount": Decimal("0.5")}
        await service.operations.perform("swap", wallet, actor, swap)
        limit = {"USDC": {"per": {"24h": "10"}}, "SOL": {"per": {"24h": "10"}}}
        grants = [{"may": ["pay", "transfer"], "assets": limit, "costs": "1"}]
        await service.policies.put(f"wallet:{wallet}", grants)
        request = PayRequest(URL, max="0.05 USDC")
        for _ in range(COUNT):
            transfers.append(await _transfer_s(service, moments, wallet, actor))
            paid = await service.payments.pay(wallet, actor, request)
            assert paid.payment is not None
            assert paid.payment.served is Served.YES
    transfer, payment = (statistics.median(each) * 1_000 for each in (transfers, shop.taken))
    return iter(
        [Ratio("p50 to signed bytes: transfer / payment", transfer, payment, "ms", 1 / AT_MOST)]
    )
