"""A key that was used elsewhere is imported only where nobody else may take what it holds."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account, create_nonce_account
from spl.token.instructions import (
    approve,
    get_associated_token_address,
    initialize_account3,
    revoke,
    set_authority,
)
from spl.token.models import (
    ApproveParams,
    AuthorityType,
    InitializeAccount3Params,
    RevokeParams,
    SetAuthorityParams,
)
from tests.promises import promise
from tests.support import rpc as rpc_nodes
from tests.support.localnet import Chain, StillClock
from tests.support.tokens import TOKEN, fund_instructions, mint_instructions

from solward.service.cluster import localnet_options
from solward.settings import Settings
from solward.solana.programs import RENT_SYSVAR, STAKE_PROGRAM
from solward.solana.protocol import GENESIS
from solward_cli import main
from solward_localnet.jsonrpc import RpcError
from solward_localnet.node import Localnet

UNITS = 400_000
STRANGER = Keypair().pubkey()


class UsedKey:
    """A key with a life on the embedded ledger of a home, whose service is stopped."""

    def __init__(self, folder: Path) -> None:
        self.pair = Keypair()
        self.home, self.file = folder / "home", folder / "id.json"
        self.home.mkdir()
        self.file.write_text(json.dumps(list(bytes(self.pair))))

    @property
    def address(self) -> Pubkey:
        return self.pair.pubkey()

    def lives(self, live: Callable[[Chain], Awaitable[None]]) -> None:
        async def run() -> None:
            settings = Settings(_env_file=None, solward_home=self.home)
            node = await Localnet.open(settings.localnet_path, localnet_options(settings))
            try:
                await live(await Chain.with_payer(node, StillClock()))
            finally:
                await node.close()

        asyncio.run(run())

    def holds_tokens(self) -> Pubkey:
        """Mint units of a new token to it; returns its token account."""
        mint = Keypair()

        async def live(chain: Chain) -> None:
            payer = chain.payer.pubkey()
            made = mint_instructions(payer, mint.pubkey(), 2_000_000)
            await chain.do(*made, signers=[mint])
            await chain.do(*fund_instructions(payer, self.address, mint.pubkey(), UNITS))

        self.lives(live)
        return get_associated_token_address(self.address, mint.pubkey(), TOKEN)

    def signs(self, *instructions: Instruction) -> None:
        async def live(chain: Chain) -> None:
            await chain.do(*instructions, signers=[self.pair])

        self.lives(live)

    def imported(self, **environment: str) -> Result:
        runner = CliRunner(env={"SOLWARD_HOME": str(self.home)} | environment)
        return runner.invoke(main, ["wallet", "import", str(self.file)])


@pytest.fixture
def used(tmp_path: Path) -> UsedKey:
    return UsedKey(tmp_path)


def set_owner(used: UsedKey, account: Pubkey, kind: AuthorityType, to: Pubkey) -> Instruction:
    return set_authority(
        SetAuthorityParams(
            program_id=TOKEN,
            account=account,
            authority=kind,
            current_authority=used.address,
            new_authority=to,
        )
    )


def refused(result: Result) -> str:
    assert result.exit_code == 2, result.output
    assert "Wallet:" not in result.stdout
    return result.stderr


@promise("foreign-delegate-named")
def test_a_delegate_is_named_and_once_revoked_the_key_is_imported(used: UsedKey) -> None:
    account = used.holds_tokens()
    used.signs(
        approve(
            ApproveParams(
                program_id=TOKEN,
                source=account,
                delegate=STRANGER,
                owner=used.address,
                amount=UNITS,
            )
        )
    )
    told = refused(used.imported())
    assert f"{STRANGER} may take {UNITS} smallest units as its delegate" in told
    assert f"`spl-token revoke {account}`" in told

    used.signs(revoke(RevokeParams(program_id=TOKEN, account=account, owner=used.address)))
    result = used.imported()
    assert result.exit_code == 0, result.output
    assert f"Address: {used.address}" in result.stdout


@promise("foreign-delegate-named")
def test_a_foreign_close_authority_is_named_and_gone_with_the_account(used: UsedKey) -> None:
    account = used.holds_tokens()
    used.signs(set_owner(used, account, AuthorityType.CLOSE_ACCOUNT, STRANGER))
    told = refused(used.imported())
    assert f"{STRANGER} may close it and keep its SOL" in told
    assert f"`spl-token authorize {account} owner {STRANGER}`" in told

    # As the advice says, only the close authority itself could be asked.
    with pytest.raises(RpcError):
        used.signs(set_owner(used, account, AuthorityType.CLOSE_ACCOUNT, used.address))
    used.signs(set_owner(used, account, AuthorityType.ACCOUNT_OWNER, STRANGER))
    assert used.imported().exit_code == 0


@promise("given-account-no-hindrance")
def test_an_account_that_a_stranger_gives_away_holds_nothing_up(used: UsedKey) -> None:
    """He keeps the authority to close it."""
    made, mint = Keypair(), Keypair()

    async def live(chain: Chain) -> None:
        payer = chain.payer.pubkey()
        await chain.do(*mint_instructions(payer, mint.pubkey(), 2_000_000), signers=[mint])
        create = create_account(
            CreateAccountParams(
                from_pubkey=payer,
                to_pubkey=made.pubkey(),
                lamports=2_039_280,
                space=165,
                owner=TOKEN,
            )
        )
        begin = initialize_account3(
            InitializeAccount3Params(
                program_id=TOKEN, account=made.pubkey(), mint=mint.pubkey(), owner=payer
            )
        )
        keeps, gives = (
            set_authority(
                SetAuthorityParams(
                    program_id=TOKEN,
                    account=made.pubkey(),
                    authority=kind,
                    current_authority=payer,
                    new_authority=to,
                )
            )
            for kind, to in (
                (AuthorityType.CLOSE_ACCOUNT, STRANGER),
                (AuthorityType.ACCOUNT_OWNER, used.address),
            )
        )
        await chain.do(create, begin, keeps, gives, signers=[made])

    used.lives(live)
    result = used.imported()
    assert result.exit_code == 0, result.output
    assert f"Note: {made.pubkey()} (mint {mint.pubkey()}): {STRANGER} may close it" in result.stderr


def test_rights_of_its_own_are_none_of_others(used: UsedKey) -> None:
    account = used.holds_tokens()
    used.signs(set_owner(used, account, AuthorityType.CLOSE_ACCOUNT, used.address))
    assert used.imported().exit_code == 0


@promise("program-address-refused")
def test_an_address_that_is_a_nonce_account_is_refused(used: UsedKey) -> None:
    async def live(chain: Chain) -> None:
        payer = chain.payer.pubkey()
        made = create_nonce_account(payer, used.address, STRANGER, 2_000_000)
        await chain.do(*made, signers=[used.pair])

    used.lives(live)
    assert f"{used.address} is a nonce account" in refused(used.imported())


@promise("program-address-refused")
def test_an_address_that_a_program_owns_is_refused(used: UsedKey) -> None:
    async def live(chain: Chain) -> None:
        made = create_account(
            CreateAccountParams(
                from_pubkey=chain.payer.pubkey(),
                to_pubkey=used.address,
                lamports=2_000_000,
                space=0,
                owner=TOKEN,
            )
        )
        await chain.do(made, signers=[used.pair])

    used.lives(live)
    assert "belongs to the program SPL Token" in refused(used.imported())


def test_stakes_that_are_its_in_part_are_shown(used: UsedKey) -> None:
    stake = Keypair()

    async def live(chain: Chain) -> None:
        program = Pubkey.from_string(STAKE_PROGRAM)
        made = create_account(
            CreateAccountParams(
                from_pubkey=chain.payer.pubkey(),
                to_pubkey=stake.pubkey(),
                lamports=3_000_000,
                space=200,
                owner=program,
            )
        )
        authorized = struct.pack("<I", 0) + bytes(used.address) + bytes(STRANGER)
        accounts = [
            AccountMeta(stake.pubkey(), False, True),
            AccountMeta(Pubkey.from_string(RENT_SYSVAR), False, False),
        ]
        initialize = Instruction(program, authorized + bytes(48), accounts)
        await chain.do(made, initialize, signers=[stake])

    used.lives(live)
    result = used.imported()
    assert result.exit_code == 0, result.output
    expected = f"Note: stake {stake.pubkey()}: {STRANGER} may withdraw its SOL"
    assert expected in result.stderr


@promise("silent-ledger-imports-nothing")
def test_a_ledger_that_is_away_imports_nothing(used: UsedKey) -> None:
    away = {"SOLANA_NETWORK": "localnet", "SOLANA_RPC_URL": "http://127.0.0.1:1"}
    told = refused(used.imported(**away))
    assert "The key's accounts could not be read, so it is not imported" in told
    # Not "imported already".
    assert used.imported().exit_code == 0


async def test_rights_that_were_looked_for_on_another_network_do_not_count(
    used: UsedKey, localnet: Localnet
) -> None:
    async with rpc_nodes.listening(rpc_nodes.answers_of(localnet)) as (node,):
        node.faults["getGenesisHash"] = rpc_nodes.answers_name("x", GENESIS["devnet"])
        devnet = {"SOLANA_NETWORK": "devnet", "SOLANA_RPC_URL": node.url}
        result = await asyncio.to_thread(used.imported, **devnet)
        assert result.exit_code == 0, result.output
    told = refused(await asyncio.to_thread(used.imported))
    assert "SOLANA_NETWORK is localnet, but the database of SOLWARD_HOME has" in told
