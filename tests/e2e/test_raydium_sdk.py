"""The direct pool venue against Raydium's own SDK: the same bytes, the same amounts."""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from tests.plugins.test_raydium_cpmm import NOW, SOL, USDC, Ledger, context, selling
from tests.promises import promise
from tests.support.environments import npm_environment
from tests.support.market import CpmmPool, pool_of, raydium_venue

from solward.solana.tokens import associated_address

RAYDIUM = Path(__file__).parent / "raydium"


def pools() -> list[CpmmPool]:
    choose = random.Random(11)
    made = []
    for on in (None, None, None, 0, 1, 2):
        reserves = {
            SOL: choose.randrange(10**9, 10**15),
            USDC: choose.randrange(10**9, 10**15),
        }
        made.append(
            pool_of(
                reserves,
                fee=choose.randrange(0, 100_000),
                owed=tuple(choose.randrange(0, 10**9) for _ in range(4)),
                creator_owed=(choose.randrange(0, 10**6), choose.randrange(0, 10**6)),
                creator_fee=choose.randrange(0, 10_000),
                creator_on=on,
                opens_at=NOW,
            )
        )
    return made


@promise("raydium-quotes-exact")
@pytest.mark.more
@pytest.mark.timeout(300)
async def test_instructions_and_amounts_are_those_of_the_vendors_sdk(tmp_path: Path) -> None:
    shutil.copy(RAYDIUM / "check.mjs", tmp_path)
    (tmp_path / "node_modules").symlink_to(npm_environment(RAYDIUM, "raydium"))
    cases, own = [], []
    choose = random.Random(12)
    for pool in pools():
        for sold in (SOL, USDC):
            case, answer = await made(pool, sold, choose.randrange(10**6, 10**9))
            cases.append(case)
            own.append(answer)
    check = subprocess.run(
        ["node", "check.mjs"],
        cwd=tmp_path,
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert check.returncode == 0, check.stderr
    theirs = json.loads(check.stdout)
    assert len(theirs) == len(own) == 12
    for pool, expected, found in zip(
        [pool for pool in pools() for _ in range(2)], theirs, own, strict=True
    ):
        # The program rounds both fees of an input at once, as its source says; the SDK rounds each,
        # so that where a creator's fee is taken it may sell a unit less.
        ratio = max(pool.reserves) // min(pool.reserves) + 1
        less = 0 if pool.creator_on is None else ratio
        assert 0 <= int(found.pop("out")) - int(expected.pop("out")) <= less
        assert found == expected


async def made(pool: CpmmPool, sold: Pubkey, amount: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A case for the SDK, and the venue's own answer."""
    ledger = Ledger(pool)
    where = context(ledger, pool)
    taker, destination = (str(Keypair().pubkey()) for _ in range(2))
    quote = await raydium_venue().quote(selling(sold, amount), where)
    swap = (await raydium_venue().instructions(quote, taker, destination, where)).swap
    program = str(swap.program_id)
    accounts = pool.accounts()
    case = {
        "pool": base64.b64encode(pool.state()).decode(),
        "config": base64.b64encode(pool.config_state()).decode(),
        "program": program,
        "address": str(pool.address),
        "taker": taker,
        "source": associated_address(taker, str(sold), str(swap.accounts[8].pubkey)),
        "destination": destination,
        "first": sold == pool.mints[0],
        "amount": str(amount),
        "minimum": str(quote.minimum_out),
        "held": {
            side: str(int.from_bytes(accounts[vault].data[64:72], "little"))
            for side, vault in zip("AB", pool.vaults, strict=True)
        },
    }
    answer = {
        "program": program,
        "data": base64.b64encode(bytes(swap.data)).decode(),
        "accounts": [
            [str(meta.pubkey), meta.is_signer, meta.is_writable] for meta in swap.accounts
        ],
        "out": str(quote.out_amount),
    }
    return case, answer
