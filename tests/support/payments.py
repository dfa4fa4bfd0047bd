"""A service whose wallet buys from a fake seller over real HTTP, settled on the embedded ledger."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.instructions import get_associated_token_address
from tests.support.market import USDC
from tests.support.programs import token_account
from tests.support.sellers import Asked, FakeSeller, Reply, fake_seller, receipt, requirement, x402
from tests.support.services import Answer, Api, settings

from solward.service.service import Solward
from solward.types.errors import InvalidRequest
from solward.types.payment import PaidAnswer, PaymentOffer, PayRequest
from solward.vault.money.request import ADMIN, Actor
from solward_server.serve import create_app

PRICE = 10_000
# Fixed: every run of a test opens the same accounts.
OWNER = Keypair.from_seed(bytes(31) + b"\x21")
SPONSOR = Keypair.from_seed(bytes(31) + b"\x22")


@dataclass
class Shop:
    """A funded wallet of a service, a seller, and the facilitator behind it.

    Attributes:
        entry: fields of the offer that replace an ordinary one's.
        version: of x402.
        settled: signatures of what the facilitator put on the ledger.
        close: closes the service; another may be opened on its home then.
    """

    api: Api
    seller: FakeSeller
    wallet: str = ""
    address: str = ""
    entry: dict[str, Any] = field(default_factory=dict)
    version: int = 2
    settled: list[str] = field(default_factory=list)
    close: Callable[[], Awaitable[None]] = field(kw_only=True)

    @property
    def service(self) -> Solward:
        return self.api.service

    @property
    def url(self) -> str:
        return self.seller.url("/weather")

    def offer(self, **fields: Any) -> dict[str, Any]:
        """An entry that may be paid, but for `fields`."""
        good = {"asset": USDC, "pay_to": str(OWNER.pubkey()), "fee_payer": str(SPONSOR.pubkey())}
        return requirement(self.version, **(good | {"amount": PRICE} | self.entry | fields))

    def asks(self, *entries: dict[str, Any], **more: Any) -> Reply:
        """The 402 of this seller."""
        return x402(
            *(entries or (self.offer(),)),
            version=self.version,
            **({"resource": self.url} | more),
        )

    async def sells(self, asked: Asked) -> Reply:
        """Ask for a payment; settle what is shown, and serve."""
        if not asked.paid:
            return self.asks()
        return Reply(200, (receipt(await self.settle(asked)),), b'{"weather": "sunny"}')

    async def settle(self, asked: Asked | bytes) -> str:
        """Sign as the sponsor and put it on the ledger; the transaction's signature."""
        wire = asked if isinstance(asked, bytes) else asked.transaction
        given = VersionedTransaction.from_bytes(wire)
        signed = SPONSOR.sign_message(to_bytes_versioned(given.message))
        whole = VersionedTransaction.populate(given.message, [signed, *given.signatures[1:]])
        options = {"encoding": "base64", "preflightCommitment": "processed"}
        encoded = base64.b64encode(bytes(whole)).decode()
        self.settled.append(str(await self.call("sendTransaction", encoded, options)))
        return self.settled[-1]

    async def call(self, method: str, *params: Any) -> Any:
        """A method of the ledger's RPC."""
        assert self.service.localnet is not None
        return await self.service.localnet.call(method, list(params))

    async def earned(self) -> int:
        """Units of USDC that the seller has."""
        account = get_associated_token_address(OWNER.pubkey(), Pubkey.from_string(USDC))
        found = await self.call("getTokenAccountBalance", str(account))
        return int(found["value"]["amount"])

    async def buys(self, actor: Actor = ADMIN, **fields: Any) -> PaidAnswer:
        """Ask for the weather, at most 0.05 USDC."""
        request = PayRequest(**({"url": self.url, "max": "0.05 USDC"} | fields))
        return await self.service.payments.pay(self.wallet, actor, request)

    async def post(self, key: str | None = None, **fields: Any) -> Answer:
        """The same over REST."""
        body = {"url": self.url, "max": "0.05 USDC"} | fields
        headers = {} if key is None else {"Idempotency-Key": key}
        token = body.pop("token", None)
        more = {} if token is None else {"token": token}
        return await self.api.post(f"/wallets/{self.wallet}/pay", body, headers=headers, **more)

    async def payments(self) -> list[Any]:
        """All payments as REST lists them."""
        found: list[Any] = (await self.api.get("/payments")).json["payments"]
        return found

    async def records(self) -> list[Any]:
        """Records of payments, paid or refused."""
        found = await self.api.records(self.wallet)
        return [each for each in found if each["type"] == "payment"]


@asynccontextmanager
async def open_shop(home: Path, *, funded: bool = True, **given: Any) -> AsyncIterator[Shop]:
    """A service and its seller; the wallet has SOL and about 15 USDC where it is `funded`."""
    async with fake_seller() as seller, shop_on(home, seller, **given) as shop:
        shop.seller.answer = shop.sells
        made = (await shop.api.post("/wallets", {"name": "buyer"})).json
        shop.wallet, shop.address = made["walletId"], made["address"]
        await shop.call("requestAirdrop", str(SPONSOR.pubkey()), 1_000_000_000)
        if funded:
            await shop.api.post(f"/wallets/{shop.wallet}/airdrop", {"amount": 2})
            swap = {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1}
            answer = await shop.api.post(f"/wallets/{shop.wallet}/swap", swap)
            assert answer.status == 200, answer.text
        yield shop


@asynccontextmanager
async def shop_on(home: Path, seller: FakeSeller, **given: Any) -> AsyncIterator[Shop]:
    """A service on a home, made or opened again, beside a seller that goes on."""
    chosen = {
        "payments_private_sites": (seller.site,),
        "payments_localnet_as": "devnet",
        "max_transactions_per_minute": 1_000,
    } | given
    mint, owner = Pubkey.from_string(USDC), OWNER.pubkey()
    account = get_associated_token_address(owner, mint)
    service = Solward.open(
        settings(home, **chosen),
        genesis={account: token_account(mint, owner)},
    )
    async with AsyncExitStack() as stack:
        opened = await stack.enter_async_context(service)
        app = create_app(opened)
        await stack.enter_async_context(app.test_app())
        yield Shop(Api(app, opened), seller, close=stack.aclose)


@asynccontextmanager
async def reopened(shop: Shop, home: Path) -> AsyncIterator[Shop]:
    """The service closed and opened again on its home, beside the same seller."""
    await shop.close()
    async with shop_on(home, shop.seller) as later:
        later.wallet, later.address = shop.wallet, shop.address
        yield later


def mpp(offer: dict[str, Any], **fields: Any) -> Reply:
    """A 402 of MPP for a charge on Solana."""
    text = base64.urlsafe_b64encode(json.dumps(offer).encode()).decode().rstrip("=")
    named = {
        "id": "charge-1",
        "realm": "shop",
        "method": "solana",
        "intent": "charge",
        "request": text,
    } | fields
    header = "Payment " + ", ".join(f'{name}="{value}"' for name, value in named.items())
    return Reply(402, (("WWW-Authenticate", header),), b"")


def charge(**fields: Any) -> dict[str, Any]:
    """What a charge of MPP asks for: 0.01 USDC, paid and sent by the wallet."""
    details = {"network": "localnet", "decimals": 6} | fields.pop("details", {})
    made = {"amount": str(PRICE), "currency": USDC, "recipient": str(OWNER.pubkey())}
    return made | fields | {"methodDetails": details}


def whole(offers: Iterable[PaymentOffer | InvalidRequest]) -> tuple[PaymentOffer, ...]:
    """Offers of which none is odd; raises what is wrong with the first that is."""
    found = []
    for each in offers:
        if isinstance(each, InvalidRequest):
            raise each
        found.append(each)
    return tuple(found)
