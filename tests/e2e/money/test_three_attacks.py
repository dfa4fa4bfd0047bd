"""Three attacks at once on a running service, and how long the payments of others take."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from typing import Any

import httpx
import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from spl.token.constants import TOKEN_2022_PROGRAM_ID, TOKEN_PROGRAM_ID
from spl.token.instructions import (
    close_account,
    create_idempotent_associated_token_account,
    get_associated_token_address,
    initialize_mint2,
    mint_to,
)
from spl.token.models import CloseAccountParams, InitializeMint2Params, MintToParams
from tests.promises import promise
from tests.support.localnet import land, localnet_process
from tests.support.processes import NO_TLS, SECRET, Service, funded_wallet

from solward.types.money import U64_MAX

PAYMENTS = 400
MINTS = 5
RENT = 10_000_000


class Stranger:
    """Somebody with SOL of his own, who needs nobody's leave to put things beside a wallet."""

    def __init__(self, rpc_url: str) -> None:
        self._rpc_url = rpc_url
        self._key = Keypair()
        asyncio.run(self._call("requestAirdrop", [str(self._key.pubkey()), 10 * 10**9]))

    def mint_all_units(self, owner: str) -> str:
        """A mint of which the owner holds every unit that there can be."""
        mint, me = Keypair(), self._key.pubkey()
        account = get_associated_token_address(Pubkey.from_string(owner), mint.pubkey())
        params = MintToParams(
            program_id=TOKEN_PROGRAM_ID,
            mint=mint.pubkey(),
            dest=account,
            mint_authority=me,
            amount=U64_MAX,
        )
        self._land([*self._mint(mint, owner, TOKEN_PROGRAM_ID), mint_to(params)], mint)
        return str(mint.pubkey())

    def close_a_mint(self, owner: str) -> None:
        """A mint that is closed while the owner has an account of it."""
        mint, me = Keypair(), self._key.pubkey()
        closing = Instruction(
            TOKEN_2022_PROGRAM_ID,
            b"\x19\x01" + bytes(me),
            [AccountMeta(mint.pubkey(), False, True)],
        )
        params = CloseAccountParams(
            program_id=TOKEN_2022_PROGRAM_ID, account=mint.pubkey(), dest=me, owner=me
        )
        made = self._mint(mint, owner, TOKEN_2022_PROGRAM_ID, closing)
        self._land([*made, close_account(params)], mint)

    def _mint(
        self, mint: Keypair, owner: str, program: Pubkey, *extensions: Instruction
    ) -> list[Instruction]:
        at, me = mint.pubkey(), self._key.pubkey()
        space = 166 + 4 + 32 if extensions else 82
        return [
            create_account(
                CreateAccountParams(
                    from_pubkey=me, to_pubkey=at, lamports=RENT, space=space, owner=program
                )
            ),
            *extensions,
            initialize_mint2(
                InitializeMint2Params(decimals=0, program_id=program, mint=at, mint_authority=me)
            ),
            create_idempotent_associated_token_account(me, Pubkey.from_string(owner), at, program),
        ]

    def _land(self, instructions: list[Instruction], mint: Keypair) -> None:
        asyncio.run(land(self._call, instructions, self._key, mint))

    async def _call(self, method: str, params: Any) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with httpx.AsyncClient(verify=NO_TLS, timeout=30) as client:
            answer = (await client.post(self._rpc_url, json=body)).json()
        assert "error" not in answer, answer
        return answer["result"]


@contextmanager
def repeated(work: Callable[[], object]) -> Iterator[None]:
    """Do something again and again in a thread, until the block ends."""
    ended = threading.Event()

    def repeat() -> None:
        while not ended.is_set():
            work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(60)


def payment_times(client: httpx.Client, wallet: str) -> list[float]:
    """Seconds that payments of different amounts took, each confirmed, shortest first."""
    to, found = str(Keypair().pubkey()), []
    for number in range(PAYMENTS):
        begun = time.perf_counter()
        body = {"to": to, "amount": (1_000_000 + number) / 10**9}
        answer = client.post(f"/wallets/{wallet}/transfer", json=body)
        found.append(time.perf_counter() - begun)
        assert answer.json()["status"] == "confirmed", answer.text
    return sorted(found)


@promise("attacks-slow-nobody")
@pytest.mark.long
@pytest.mark.timeout(300)
def test_payments_keep_their_pace_under_three_attacks_at_once(services: Any) -> None:
    with ExitStack() as stack:
        folder = services().home.parent
        localnet = stack.enter_context(localnet_process(folder / "ledger.db"))
        service: Service = services(SOLANA_RPC_URL=localnet.http, SOLANA_NETWORK="localnet")
        service.start()
        operator = stack.enter_context(service.client())
        payer, attacked = (funded_wallet(operator, name, 10) for name in ("payer", "attacked"))
        address = operator.get(f"/wallets/{attacked}").json()["publicKey"]
        key = operator.post("/keys", json={"name": "reads", "spendingLimitSol": 0}).json()["apiKey"]
        payment_times(operator, payer)
        usual = payment_times(operator, payer)

        stranger = Stranger(localnet.http)
        mints = [stranger.mint_all_units(address) for _ in range(MINTS)]
        stranger.close_a_mint(address)
        given: list[httpx.Response] = []
        flooded: Counter[int] = Counter()

        def give_all() -> None:
            body = {"to": str(Keypair().pubkey()), "mint": mints.pop(), "amount": U64_MAX}
            given.append(mover.post(f"/wallets/{attacked}/token-transfer", json=body))

        def flood() -> None:
            with contextlib.suppress(httpx.TransportError):
                tags = {"tags": ["x" * 90] * 90}
                flooded[reader.patch(f"/wallets/{attacked}", json=tags).status_code] += 1
                flooded[reader.get(f"/wallets/{attacked}/balance").status_code] += 1

        reader, mover = (stack.enter_context(service.client(token)) for token in (key, SECRET))
        with repeated(flood), repeated(lambda: give_all() if mints else time.sleep(0.01)):
            attacked_times = payment_times(operator, payer)
        assert [each.json()["status"] for each in given] == ["confirmed"] * MINTS
        assert flooded.keys() <= {200, 403, 429}
        assert flooded[403] > 100
        p99, usual_p99 = (times[PAYMENTS * 99 // 100] for times in (attacked_times, usual))
        print(f"p99 of a payment: {usual_p99:.3f} s, under three attacks {p99:.3f} s")
        assert p99 < 2 * usual_p99
        balance = operator.get(f"/wallets/{attacked}/balance").json()
        assert Decimal(str(balance["sol"])) > 9
