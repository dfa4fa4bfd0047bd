"""The localnet's market, pools of Raydium and routes of Jupiter, as accounts and instructions."""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from solders.account import Account
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from spl.token.constants import TOKEN_PROGRAM_ID
from tests.support.localnet import SOL, Chain, StillClock, rent
from tests.support.programs import mint_account, token_account
from tests.swap_api import venue_app

from solward.plugins.loaded import LoadedVenue
from solward.solana.programs import WRAPPED_SOL_MINT
from solward_localnet.market import POOLS, genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_plugins.venues import raydium_cpmm

# The localnet's market by its HTTP calls, over a localnet whose clock stands still.

USDC, BONK = (str(pool.mint) for pool in POOLS)
# Fixed: test workers must name their cases alike.
TAKER = str(Keypair.from_seed(bytes(31) + b"\x09").pubkey())


@dataclass
class Market:
    """The venue's HTTP side over a localnet whose clock stands still."""

    chain: Chain
    http: httpx.AsyncClient

    async def ask(self, **query: Any) -> httpx.Response:
        good = {"inputMint": WRAPPED_SOL_MINT, "outputMint": USDC, "amount": SOL, "taker": TAKER}
        asked = {name: each for name, each in (good | query).items() if each is not None}
        return await self.http.get("/swap/v2/build", params=asked)

    async def build(self, source: str, target: str, amount: int, **more: Any) -> dict[str, Any]:
        response = await self.ask(inputMint=source, outputMint=target, amount=amount, **more)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def trade(self, source: str, target: str, amount: int) -> int:
        """Settle the payer's swap as a user of the API does; what it was quoted."""
        taker = self.chain.payer
        answer = await self.build(source, target, amount, taker=str(taker.pubkey()))
        await self.chain.do(*whole(answer))
        self.chain.clock.slots(1)
        return int(answer["outAmount"])

    async def units(self, owner: Pubkey, mint: str) -> int:
        account = get_associated_token_address(owner, Pubkey.from_string(mint))
        held = await self.chain.value("getTokenAccountBalance", str(account))
        return int(held["amount"])


def instruction(body: dict[str, Any]) -> Instruction:
    accounts = [
        AccountMeta(Pubkey.from_string(each["pubkey"]), each["isSigner"], each["isWritable"])
        for each in body["accounts"]
    ]
    return Instruction(
        Pubkey.from_string(body["programId"]), base64.b64decode(body["data"]), accounts
    )


def whole(answer: dict[str, Any]) -> list[Instruction]:
    """Every instruction of an answer, in the order in which they are sent."""
    parts = [
        *answer["computeBudgetInstructions"],
        *answer["setupInstructions"],
        answer["swapInstruction"],
        *([answer["cleanupInstruction"]] if answer["cleanupInstruction"] else []),
    ]
    return [instruction(part) for part in parts]


@asynccontextmanager
async def open_market(*, venue: Any = venue_app, **options: Any) -> AsyncIterator[Market]:
    """`venue` makes its application: the tests' whole API, or the localnet's own."""
    clock = StillClock()
    opened = {"clock": clock, "ticker": False, "genesis": genesis_accounts, **options}
    node = await Localnet.open(None, LocalnetOptions(**opened))
    try:
        chain = await Chain.with_payer(node, clock)
        transport = httpx.ASGITransport(venue(node.call))
        async with httpx.AsyncClient(transport=transport, base_url="http://venue") as http:
            yield Market(chain, http)
    finally:
        await node.close()


# Pools of Raydium's constant product program, as the accounts that a ledger has of them.

CPMM = Pubkey.from_string("CPMMoo8L3F4NbTegBCKVNunggL7H1ZpdTHKxQB5qKP1C")
AUTHORITY, AUTHORITY_BUMP = Pubkey.find_program_address([b"vault_and_lp_mint_auth_seed"], CPMM)


def discriminator(name: str) -> bytes:
    return hashlib.sha256(f"account:{name}".encode()).digest()[:8]


@dataclass
class CpmmPool:
    """A pool; the mints in the order in which the program keeps them, by their bytes.

    Attributes:
        reserves: units of mint 0 and 1 that trade.
        owed: units in the vaults beside: protocol fees (0, 1), fund fees (0, 1).
        creator_owed: the same of the creator's fees (0, 1).
        fee, creator_fee: parts of a million.
        creator_on: what the creator's fee is taken from (0 either, 1 mint 0, 2 mint 1), None
            where the pool has no such fee.
    """

    mints: tuple[Pubkey, Pubkey]
    reserves: tuple[int, int]
    fee: int = 2_500
    owed: tuple[int, int, int, int] = (0, 0, 0, 0)
    creator_owed: tuple[int, int] = (0, 0)
    creator_fee: int = 0
    creator_on: int | None = None
    status: int = 0
    opens_at: int = 0
    programs: tuple[Pubkey, Pubkey] = (TOKEN_PROGRAM_ID, TOKEN_PROGRAM_ID)
    program: Pubkey = CPMM
    address: Pubkey = field(default_factory=lambda: Keypair().pubkey())
    config: Pubkey = field(default_factory=lambda: Keypair().pubkey())
    observation: Pubkey = field(default_factory=lambda: Keypair().pubkey())
    lp_mint: Pubkey = field(default_factory=lambda: Keypair().pubkey())
    vaults: tuple[Pubkey, Pubkey] = field(
        default_factory=lambda: (Keypair().pubkey(), Keypair().pubkey())
    )

    @property
    def authority(self) -> Pubkey:
        return Pubkey.find_program_address([b"vault_and_lp_mint_auth_seed"], self.program)[0]

    def state(self) -> bytes:
        """The pool's own account."""
        keys = (
            self.config,
            Pubkey.default(),
            *self.vaults,
            self.lp_mint,
            *self.mints,
            *self.programs,
            self.observation,
        )
        data = discriminator("PoolState") + b"".join(map(bytes, keys))
        data += bytes([AUTHORITY_BUMP, self.status, 9, 9, 6])
        data += struct.pack("<QQQQQQQ", 10**9, *self.owed, self.opens_at, 0)
        on, has = (0, False) if self.creator_on is None else (self.creator_on, True)
        data += struct.pack("<B?6xQQ", on, has, *self.creator_owed) + bytes(8 * 28)
        assert len(data) == 637
        return data

    def config_state(self) -> bytes:
        data = discriminator("AmmConfig") + struct.pack("<B?H", 255, False, 0)
        data += struct.pack("<QQQQ", self.fee, 120_000, 40_000, 0) + bytes(64)
        return data + struct.pack("<Q", self.creator_fee) + bytes(8 * 15)

    def observation_state(self) -> bytes:
        data = discriminator("ObservationState") + struct.pack("<?H", True, 0)
        return data + bytes(self.address) + bytes(40 * 100 + 32)

    def accounts(self) -> dict[Pubkey, Account]:
        """All of it but the mints."""
        owned = (
            (self.address, self.state()),
            (self.config, self.config_state()),
            (self.observation, self.observation_state()),
        )
        made = {key: Account(rent(len(data)), data, self.program) for key, data in owned}
        for side in (0, 1):
            units = self.reserves[side] + self.owed[side] + self.owed[2 + side]
            made[self.vaults[side]] = token_account(
                self.mints[side],
                self.authority,
                units + self.creator_owed[side],
                self.programs[side],
            )
        return made


def pool_of(reserves: Mapping[Pubkey, int], **options: object) -> CpmmPool:
    """A pool of two mints, in the program's order."""
    mints = sorted(reserves, key=bytes)
    return CpmmPool((mints[0], mints[1]), (reserves[mints[0]], reserves[mints[1]]), **options)  # type: ignore[arg-type]


def raydium_venue() -> LoadedVenue:
    """The built-in plugin."""
    return LoadedVenue(
        raydium_cpmm.venue_spec(),
        "solward",
        "0",
        {
            "venue_quote": raydium_cpmm.venue_quote,
            "venue_instructions": raydium_cpmm.venue_instructions,
        },
    )


def fee_mint(bps: int, most: int) -> bytes:
    """A Token-2022 mint whose transfers withhold a fee, the same in every epoch."""
    fee = struct.pack("<QQH", 0, most, bps)
    extension = struct.pack("<HH", 1, 108) + bytes(64) + bytes(8) + fee + fee
    return mint_account(6).data.ljust(165, b"\0") + b"\1" + extension


# The router of Jupiter (v6) as instructions, packed by its published IDL, over pools of
# Raydium's constant product program.

JUPITER = Pubkey.from_string("JUP6LkbZbjS1jKKwapdHNy74zcZ3tLUZoi5QNyVTaV4")
EVENTS, _ = Pubkey.find_program_address([b"__event_authority"], JUPITER)
SHARED_ID = 3
SHARED, _ = Pubkey.find_program_address([b"authority", bytes([SHARED_ID])], JUPITER)

# Of the IDL's enum `Swap`.
_RAYDIUM_CP = 46


@dataclass(frozen=True)
class Hop:
    """A pool and what is sold to it."""

    pool: CpmmPool
    sold: Pubkey

    @property
    def bought(self) -> Pubkey:
        one, other = self.pool.mints
        return other if self.sold == one else one

    @property
    def first(self) -> bool:
        """Whether the pool's first mint is sold."""
        return self.sold == self.pool.mints[0]

    def accounts(self, owner: Pubkey, source: Pubkey, destination: Pubkey) -> list[AccountMeta]:
        """What the router passes on, the pool's program first."""
        pool, sides = self.pool, (0, 1) if self.first else (1, 0)
        return [
            _read(CPMM),
            _read(owner),
            _read(pool.authority),
            _read(pool.config),
            _write(pool.address),
            _write(source),
            _write(destination),
            *(_write(pool.vaults[side]) for side in sides),
            *(_read(pool.programs[side]) for side in sides),
            *(_read(pool.mints[side]) for side in sides),
            _write(pool.observation),
        ]


def shared_accounts(mints: Sequence[Pubkey]) -> dict[Pubkey, Account]:
    """The router's own token accounts, of which `shared_accounts_route` uses one for each mint."""
    return {
        get_associated_token_address(SHARED, mint): token_account(mint, SHARED, 0) for mint in mints
    }


def route(
    hops: Sequence[Hop],
    taker: Pubkey,
    destination: Pubkey,
    amount: int,
    quoted: int,
    slippage_bps: int,
    *,
    delivers: bool = False,
) -> Instruction:
    """`route`: intermediate tokens pass through the taker's own accounts.

    Args:
        delivers: by `destination_token_account`, else `destination` is the taker's account of what
            is bought.
    """
    source = get_associated_token_address(taker, hops[0].sold)
    own = get_associated_token_address(taker, hops[-1].bought)
    accounts = [
        _read(TOKEN_PROGRAM_ID),
        AccountMeta(taker, True, False),
        _write(source),
        _write(own if delivers else destination),
        _write(destination) if delivers else _read(JUPITER),
        _read(hops[-1].bought),
        _read(JUPITER),
        _read(EVENTS),
        _read(JUPITER),
        *_of_hops(hops, taker, source, own if delivers else destination),
    ]
    return Instruction(JUPITER, _data("route", b"", hops, amount, quoted, slippage_bps), accounts)


def shared_route(
    hops: Sequence[Hop],
    taker: Pubkey,
    destination: Pubkey,
    amount: int,
    quoted: int,
    slippage_bps: int,
) -> Instruction:
    """`shared_accounts_route`: everything passes through the router's own accounts."""
    source, target = (
        get_associated_token_address(SHARED, mint) for mint in (hops[0].sold, hops[-1].bought)
    )
    accounts = [
        _read(TOKEN_PROGRAM_ID),
        _read(SHARED),
        AccountMeta(taker, True, False),
        _write(get_associated_token_address(taker, hops[0].sold)),
        _write(source),
        _write(target),
        _write(destination),
        _read(hops[0].sold),
        _read(hops[-1].bought),
        _read(JUPITER),
        _read(JUPITER),
        _read(EVENTS),
        _read(JUPITER),
        *_of_hops(hops, SHARED, source, target),
    ]
    data = _data("shared_accounts_route", bytes([SHARED_ID]), hops, amount, quoted, slippage_bps)
    return Instruction(JUPITER, data, accounts)


def _of_hops(
    hops: Sequence[Hop], owner: Pubkey, source: Pubkey, target: Pubkey
) -> list[AccountMeta]:
    found: list[AccountMeta] = []
    for at, hop in enumerate(hops):
        last = at == len(hops) - 1
        paid = source if at == 0 else get_associated_token_address(owner, hop.sold)
        to = target if last else get_associated_token_address(owner, hop.bought)
        found += hop.accounts(owner, paid, to)
    return found


def _data(
    name: str, more: bytes, hops: Sequence[Hop], amount: int, quoted: int, slippage_bps: int
) -> bytes:
    # Of each all that came before goes on.
    steps = b"".join(bytes([_RAYDIUM_CP, 100, at, at + 1]) for at in range(len(hops)))
    return (
        hashlib.sha256(f"global:{name}".encode()).digest()[:8]
        + more
        + struct.pack("<I", len(hops))
        + steps
        + struct.pack("<QQHB", amount, quoted, slippage_bps, 0)
    )


def _read(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=False)


def _write(key: Pubkey) -> AccountMeta:
    return AccountMeta(key, is_signer=False, is_writable=True)
