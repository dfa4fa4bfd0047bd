"""Sellers and facilitators that others made, as processes of their own that settle on a localnet.

Each runs in an environment of its own, made by the ordinary package clients from a lock beside its
program (`tests/e2e/payments`) and kept outside the tree, so that a later run only starts it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.token.constants import TOKEN_PROGRAM_ID
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    transfer_checked,
)
from spl.token.models import TransferCheckedParams
from tests.market_venue import build
from tests.support.environments import npm_environment, python_environment
from tests.support.localnet import localnet_process, signed
from tests.support.market import USDC, whole
from tests.support.repository import ROOT

from solward.solana.programs import WRAPPED_SOL_MINT

PROGRAMS = ROOT / "tests" / "e2e" / "payments"
LAMPORTS = 1_000_000_000
MINT = Pubkey.from_string(USDC)
DECIMALS = 6
# Sellers need a while to import; a localnet's wait is for slots of 100 ms.
PATIENCE_S = 60.0


def npm_programs() -> Path:
    """The folder `node_modules` of the programs of npm."""
    # mppx names a peer of which viem has no release yet.
    return npm_environment(PROGRAMS / "npm", "npm", "--legacy-peer-deps", "--omit=optional")


@dataclass
class Ledger:
    """A localnet's RPC, and somebody on it who has SOL and USDC to give; its context closes it."""

    rpc: str
    giver: Keypair = field(default_factory=Keypair)
    http: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30))

    @classmethod
    def with_giver(cls, rpc: str, sol: int = 1000) -> Ledger:
        """Somebody who sold half of `sol` for USDC at the localnet's market."""
        ledger = cls(rpc)
        address = str(ledger.giver.pubkey())
        ledger.landed(ledger.call("requestAirdrop", address, sol * LAMPORTS))
        query = {"inputMint": WRAPPED_SOL_MINT, "outputMint": USDC, "taker": address}
        asked = urlencode(query | {"amount": sol * LAMPORTS // 2})
        ledger.do(*whole(asyncio.run(build(ledger._called, asked))))
        return ledger

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def call(self, method: str, *params: Any) -> Any:
        """The result of a method of the RPC."""
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = self.http.post(self.rpc, json=body).json()
        assert "error" not in answer, answer
        return answer["result"]

    async def _called(self, method: str, params: Sequence[Any]) -> Any:
        return self.call(method, *params)

    def do(self, *instructions: Instruction) -> str:
        """Send what the giver pays for, and wait until it is confirmed; the signature."""
        latest = self.call("getLatestBlockhash")["value"]["blockhash"]
        return self.landed(self.send(bytes(signed(instructions, self.giver, blockhash=latest))))

    def send(self, wire: bytes) -> str:
        """Send signed bytes; the signature."""
        options = {"encoding": "base64", "skipPreflight": True}
        return str(self.call("sendTransaction", base64.b64encode(wire).decode(), options))

    def landed(self, signature: str, commitment: str = "confirmed") -> str:
        """Wait until a transaction is on the ledger; it must have succeeded."""
        reached = {"confirmed": ("confirmed", "finalized"), "finalized": ("finalized",)}
        deadline = time.monotonic() + PATIENCE_S
        while True:
            [status] = self.call("getSignatureStatuses", [signature])["value"]
            if status is not None and status["confirmationStatus"] in reached[commitment]:
                assert status["err"] is None, status
                return signature
            assert time.monotonic() < deadline, f"{signature} did not land"
            time.sleep(0.02)

    def give(self, owner: str, usdc: int, lamports: int = 0) -> str:
        """Open the USDC account of `owner` and put units into it, and SOL beside it; the
        signature."""
        source, mine = Pubkey.from_string(owner), self.giver.pubkey()
        steps = [create_idempotent_associated_token_account(mine, source, MINT)]
        if usdc:
            to = get_associated_token_address(source, MINT)
            params = TransferCheckedParams(
                program_id=TOKEN_PROGRAM_ID,
                source=get_associated_token_address(mine, MINT),
                mint=MINT,
                dest=to,
                owner=mine,
                amount=usdc,
                decimals=DECIMALS,
            )
            steps.append(transfer_checked(params))
        if lamports:
            steps.append(
                transfer(TransferParams(from_pubkey=mine, to_pubkey=source, lamports=lamports))
            )
        return self.do(*steps)

    def usdc(self, owner: str) -> int:
        """Units in the associated account of `owner`, as confirmed."""
        account = get_associated_token_address(Pubkey.from_string(owner), MINT)
        options = {"commitment": "confirmed"}
        return int(self.call("getTokenAccountBalance", str(account), options)["value"]["amount"])

    def sol(self, owner: str) -> int:
        """Lamports of `owner`, as confirmed."""
        return int(self.call("getBalance", owner, {"commitment": "confirmed"})["value"])

    def history(self, owner: str) -> list[dict[str, Any]]:
        """Transactions that touch the associated account of `owner`, newest first."""
        account = get_associated_token_address(Pubkey.from_string(owner), MINT)
        options = {"commitment": "confirmed", "limit": 1000}
        return list(self.call("getSignaturesForAddress", str(account), options))

    def strangers_rows(self, owner: str, count: int) -> None:
        """Transactions of others that name the associated account of `owner` and move nothing."""
        payer = self.giver.pubkey()
        account = get_associated_token_address(Pubkey.from_string(owner), MINT)
        named = AccountMeta(account, is_signer=False, is_writable=False)
        latest = self.call("getLatestBlockhash")["value"]["blockhash"]
        for number in range(1, count + 1):
            made = transfer(TransferParams(from_pubkey=payer, to_pubkey=payer, lamports=number))
            row = Instruction(made.program_id, bytes(made.data), [*made.accounts, named])
            last = self.send(bytes(signed([row], self.giver, blockhash=latest)))
        self.landed(last)

    def buyer(self, usdc: int, lamports: int = 0) -> Keypair:
        """A new key that holds these."""
        keypair = Keypair()
        self.give(str(keypair.pubkey()), usdc, lamports)
        return keypair


@dataclass(frozen=True)
class Seller:
    """A process that sells.

    Attributes:
        url: where it serves, without a path.
        pay_to: owner of what it is paid.
        fee_payer: who pays the fees of sponsored payments.
        log: what it wrote of itself.
        split: owner of what it has others paid; empty where it has nobody paid.
    """

    url: str
    pay_to: str
    fee_payer: str
    log: Path
    split: str
    process: subprocess.Popen[str] = field(repr=False)

    @property
    def site(self) -> str:
        """As grants and PAYMENTS_PRIVATE_SITES name it."""
        return self.url.removeprefix("http://")


@dataclass
class Counterparts:
    """Starts what others made against one ledger, each in a process of its own."""

    ledger: Ledger
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def x402_python(self) -> Seller:
        """x402's seller for FastAPI before its own facilitator; protocol 2."""
        sponsor, facilitator = self.facilitator("x402_python")
        return self._seller("x402_python", "seller.py", sponsor, facilitator=facilitator)

    def x402_npm(self) -> Seller:
        """@x402/express before the facilitator of @x402/svm; protocol 2."""
        sponsor, facilitator = self.facilitator("npm")
        return self._seller("npm", "x402_seller.mjs", sponsor, facilitator=facilitator)

    def x402_v1(self) -> Seller:
        """x402-express 1 before the facilitator of x402 in Python; protocol 1."""
        sponsor, facilitator = self.facilitator("x402_python")
        return self._seller("npm", "x402_v1_seller.mjs", sponsor, facilitator=facilitator)

    def mpp_npm(self) -> Seller:
        """@solana/mpp."""
        sponsor = self.ledger.buyer(0, LAMPORTS)
        split = str(self.ledger.buyer(0).pubkey())
        return self._seller("npm", "mpp_seller.mjs", sponsor, key=_bytes(sponsor), split=split)

    def mpp_python(self) -> Seller:
        """MPP of solana-pay-kit."""
        sponsor = self.ledger.buyer(0, LAMPORTS)
        return self._seller("pay_kit", "seller.py", sponsor, key=_bytes(sponsor))

    def facilitator(self, environment: str, sponsor: Keypair | None = None) -> tuple[Keypair, str]:
        """A facilitator: who pays its fees, somebody new where nobody is named, and where it
        serves."""
        sponsor = sponsor or self.ledger.buyer(0, LAMPORTS)
        program = "x402_facilitator.mjs" if environment == "npm" else "facilitator.py"
        process, log = self.start(environment, program, key=_bytes(sponsor))
        return sponsor, _address(process, log)

    def bought(self, environment: str, program: str, buyer: Keypair, **given: Any) -> Any:
        """What a client that others made was answered."""
        process, log = self.start(environment, program, key=_bytes(buyer), **given)
        told, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, log.read_text()[-2000:]
        return json.loads(told.splitlines()[-1])

    def start(self, environment: str, program: str, **given: Any) -> tuple[Any, Path]:
        """A program of an environment: its process, and its log."""
        given |= {"rpc": self.ledger.rpc, "mint": USDC}
        log = self.folder / f"{len(self.started)}-{program}.log"
        with log.open("w") as errors:
            process = subprocess.Popen(
                [*self._command(environment, program), json.dumps(given)],
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=self.folder,
                env=_environment(),
            )
        self.started.append(process)
        return process, log

    def stop(self) -> None:
        """End everything that was started."""
        for process in self.started:
            process.kill()
        for process in self.started:
            process.wait(20)
            assert process.stdout is not None
            process.stdout.close()

    def _seller(self, environment: str, program: str, sponsor: Keypair, **given: Any) -> Seller:
        pay_to = str(self.ledger.buyer(0).pubkey())
        process, log = self.start(environment, program, payTo=pay_to, **given)
        split, fee_payer = given.get("split", ""), str(sponsor.pubkey())
        return Seller(_address(process, log), pay_to, fee_payer, log, split, process)

    def _command(self, environment: str, program: str) -> Sequence[str]:
        if environment != "npm":
            return str(python_environment(PROGRAMS / environment)), str(
                PROGRAMS / environment / program
            )
        # Beside the packages' folder, where imports look for it.
        folder = self.folder / "npm"
        if not folder.exists():
            folder.mkdir()
            for each in (PROGRAMS / "npm").glob("*.mjs"):
                shutil.copy(each, folder)
            (folder / "node_modules").symlink_to(npm_programs())
        return "node", str(folder / program)


def _bytes(keypair: Keypair) -> list[int]:
    return list(bytes(keypair))


def _environment() -> Mapping[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(PROGRAMS)}


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """Its first line, which it writes once it takes connections."""
    assert process.stdout is not None
    line = process.stdout.readline().strip()
    assert line.startswith("http://"), log.read_text()[-4000:]
    return line


@contextlib.contextmanager
def payment_stage(folder: Path, *options: str) -> Iterator[Counterparts]:
    """A localnet with somebody on it who has USDC to give, and what is started against it."""
    with (
        localnet_process(folder / "localnet.db", "--slot-ms", "100", *options) as node,
        Ledger.with_giver(node.http) as ledger,
    ):
        counterparts = Counterparts(ledger, folder)
        try:
            yield counterparts
        finally:
            counterparts.stop()
