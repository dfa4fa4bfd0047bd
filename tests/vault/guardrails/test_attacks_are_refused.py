"""Everything a hostile plugin, model or venue can hand the engine is refused by its rule.

Each attack declares a transfer of 0.01 SOL. It is judged as the engine judges it, and by what the
simulation shows alone: behind a lookup table, and inside a program that calls it. At top level it
is judged in `test_every_rule_is_needed.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import Message
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from spl.token.instructions import create_idempotent_associated_token_account
from tests.promises import promise
from tests.vault.guardrails.attacks import (
    ATTACKS,
    Attack,
    move_tokens,
    pay,
    set_authority,
    token,
    u64,
)
from tests.vault.guardrails.bank import (
    POLICY,
    RENT_TOKEN,
    ROUTER,
    SOL,
    Bank,
    key,
    token_data,
    verdict,
)
from tests.vault.guardrails.mixes import loadable

from solward.solana.message import resolve
from solward.solana.programs import (
    STAKE_PROGRAM,
    TOKEN_PROGRAM,
    WRAPPED_SOL_MINT,
)
from solward.types.guardrail import Intent, TransactionEffects
from solward.vault.guardrails.effects import analyse, simulated_effects
from solward.vault.guardrails.simulation import Simulation, UntrustedSimulation, inner_from_json

DECLARED = 10_000_000
SHOWN = [attack for attack in ATTACKS if attack.simulated]
IDS = [attack.name for attack in ATTACKS]
SHOWN_IDS = [attack.name for attack in SHOWN]


def intent(bank: Bank) -> Intent:
    return Intent(
        type="transfer",
        wallet=bank.address,
        lamports_out=DECLARED,
        destinations=frozenset({str(bank.stranger.pubkey())}),
    )


@promise("no-later-claims", "authority-kept")
@pytest.mark.parametrize("attack", ATTACKS, ids=IDS)
@pytest.mark.parametrize("version", ["legacy", "0"])
def test_as_the_engine_judges_it(bank: Bank, attack: Attack, version: str) -> None:
    """The bytes come first, so it may be refused by what they cannot bound."""
    wire = bank.build(attack.make(bank), attack.signers(bank), version=version)
    judged = verdict(intent(bank), bank.bounded(wire, must_run=attack.runs))
    assert judged.rule in (attack.rule, "program_allowlist", "authority_change"), judged.reason


@pytest.mark.parametrize("attack", SHOWN, ids=SHOWN_IDS)
def test_behind_a_lookup_table(bank: Bank, attack: Attack) -> None:
    instructions = attack.make(bank)
    table = bank.put_table(loadable(bank, instructions))
    wire = bank.build(instructions, attack.signers(bank), version="0", tables=[table])
    judged = verdict(intent(bank), bank.effects(wire, must_run=attack.runs))
    assert judged.rule == attack.rule, judged.reason


@pytest.mark.parametrize("attack", SHOWN, ids=SHOWN_IDS)
def test_inside_another_program(bank: Bank, attack: Attack) -> None:
    instructions = attack.make(bank)
    wire = bank.build(instructions, attack.signers(bank))
    judged = verdict(intent(bank), bank.inner_effects(instructions, wire))
    assert judged.rule == attack.rule, judged.reason


# What these do shows in the bytes alone: no account changes that is the wallet's by its data.
ONLY_IN_THE_BYTES = {
    "02 transfer with seed",
    "04 prefund the wallet",
    "16 withdraw excess lamports",
    "20 advance nonce",
    "21 loader close",
    "21 stake for a stranger",
    "25 inflow masks outflow",
    "31 multisig member",
    "minting to a stranger",
}
EXECUTED = [attack for attack in ATTACKS if attack.runs]
VISIBLE = [
    attack
    for attack in EXECUTED
    if attack.name not in ONLY_IN_THE_BYTES and not attack.name.startswith("17")
]


@pytest.mark.parametrize("attack", VISIBLE, ids=[attack.name for attack in VISIBLE])
def test_by_its_traces_alone_where_no_instruction_is_understood(bank: Bank, attack: Attack) -> None:
    instructions = attack.make(bank)
    _, keys, full = bank.simulate(bank.build(instructions, attack.signers(bank)))
    message = Message.new_with_blockhash(
        [Instruction(key(ROUTER), b"", [])], bank.own, bank.svm.latest_blockhash()
    )
    added = [entry for entry in resolve(message) if entry.address not in full.pre]
    mute = Simulation(full.pre, full.post)
    effects = analyse(message, (keys[0], *added, *keys[1:]), mute, bank.address)
    judged = verdict(intent(bank), effects)
    assert judged.rule in {"simulated_effects", "authority_change", "fee_limit"}


@pytest.mark.parametrize("attack", EXECUTED, ids=[attack.name for attack in EXECUTED])
def test_by_its_bytes_alone_where_the_simulation_shows_no_change(
    bank: Bank, attack: Attack
) -> None:
    """A program can tell a simulation from the real thing and behave only there."""
    wire = bank.build(attack.make(bank), attack.signers(bank))
    transaction, keys, full = bank.simulate(wire)
    still = Simulation(full.pre, full.pre, full.inner)
    effects = analyse(transaction.message, keys, still, bank.address)
    judged = verdict(intent(bank), effects)
    assert judged.rule in {attack.rule, "simulated_effects", "program_allowlist"}


@promise("fee-and-rent-capped")
@pytest.mark.parametrize("version", ["legacy", "0"])
def test_10_a_unit_price_is_capped(bank: Bank, version: str) -> None:
    budget = [set_compute_unit_limit(1_400_000), set_compute_unit_price(1_000_000)]
    wire = bank.build([*budget, pay(bank, DECLARED)], version=version)
    effects = bank.effects(wire)
    assert effects.fee_lamports == 1_405_000
    assert verdict(intent(bank), effects).rule == "fee_limit"


def test_11_a_version_1_priority_fee_is_capped(bank: Bank) -> None:
    wire = bank.build([pay(bank, DECLARED)], version="1", priority_fee=10**15)
    effects = bank.effects(wire)
    assert effects.fee_lamports == 10**15 + 5_000
    assert verdict(intent(bank), effects).rule == "fee_limit"


def test_22_a_second_managed_wallet_may_not_sign_along(bank: Bank) -> None:
    other = str(bank.friend.pubkey())
    wire = bank.build(
        [pay(bank, DECLARED), pay_from(bank.friend, bank.stranger.pubkey())], [bank.friend]
    )
    assert verdict(intent(bank), bank.effects(wire)).allowed
    judged = verdict(intent(bank), bank.effects(wire, managed=[other]))
    assert judged.rule == "authority_change"


def pay_from(payer: Keypair, to: Pubkey) -> Instruction:
    return transfer(TransferParams(from_pubkey=payer.pubkey(), to_pubkey=to, lamports=SOL))


def blocked_by(bank: Bank, effects: TransactionEffects, address: Pubkey) -> bool:
    policy = replace(POLICY, blocked_addresses=frozenset({str(address)}))
    declared = replace(intent(bank), destinations=frozenset(), tokens_out={str(bank.mint): 500})
    return verdict(declared, effects, policy).rule == "blocked_address"


@promise("blocked-address-found")
def test_05_a_blocked_recipient_is_found_behind_a_lookup_table(bank: Bank) -> None:
    thief = bank.stranger.pubkey()
    table = bank.put_table([bank.friend.pubkey(), thief])
    wire = bank.build([pay(bank, DECLARED, thief)], version="0", tables=[table])
    assert bytes(thief) not in wire
    assert blocked_by(bank, bank.effects(wire), thief)


@promise("blocked-address-found")
def test_23_a_blocked_key_in_instruction_data_is_found(bank: Bank) -> None:
    wire = bank.build(set_authority("mint", 0)(bank))
    assert blocked_by(bank, bank.effects(wire), bank.stranger.pubkey())


@promise("blocked-address-found")
def test_24_a_token_account_of_a_blocked_owner_is_found(bank: Bank) -> None:
    effects = bank.effects(bank.build([move_tokens(bank)]))
    assert blocked_by(bank, effects, bank.stranger.pubkey())
    assert not blocked_by(bank, effects, bank.friend.pubkey())


def test_19_a_single_account_for_a_stranger_is_refused_too(bank: Bank) -> None:
    other = Pubkey.new_unique()
    wire = bank.build([create_idempotent_associated_token_account(bank.own, other, bank.mint)])
    declared = replace(intent(bank), rent_lamports=10_000_000)
    judged = verdict(declared, bank.effects(wire))
    assert judged.rule == "simulated_effects"
    assert str(other) in (judged.reason or "")


def test_29_less_than_the_minimum_out_is_refused(bank: Bank) -> None:
    receive = token(
        b"\x03" + u64(899),
        (bank.their_tokens, "w"),
        (bank.tokens, "w"),
        (bank.stranger.pubkey(), "s"),
    )
    effects = bank.effects(bank.build([pay(bank, DECLARED), receive], [bank.stranger]))
    declared = replace(intent(bank), tokens_in={str(bank.mint): 900})
    assert verdict(declared, effects).rule == "simulated_effects"
    assert verdict(replace(declared, tokens_in={str(bank.mint): 899}), effects).allowed


def stake(staker: Pubkey, withdrawer: Pubkey, until: int = 0) -> bytes:
    lockup = until.to_bytes(8, "little") + bytes(40)
    meta = (2_282_880).to_bytes(8, "little") + bytes(staker) + bytes(withdrawer) + lockup
    return (1).to_bytes(4, "little") + meta + bytes(76)


def wrapped(bank: Bank, *, delegate: bool = False, closed_by_another: bool = False) -> bytes:
    """An empty account of wrapped SOL of the wallet, over which a stranger has a right."""
    data = bytearray(token_data(bank.wsol, bank.own, 0, RENT_TOKEN))
    right = b"\x01\0\0\0" + bytes(bank.stranger.pubkey())
    if delegate:
        data[72:108] = right
        data[121:129] = b"\xff" * 8
    if closed_by_another:
        data[129:165] = right
    return bytes(data)


ANOTHER_MAY_TAKE: dict[str, Callable[[Bank], Pubkey]] = {
    "a stake of which the wallet is only the staker": lambda bank: bank.put(
        STAKE_PROGRAM, stake(bank.own, bank.stranger.pubkey())
    ),
    "a stake of which the wallet is only the withdrawer": lambda bank: bank.put(
        STAKE_PROGRAM, stake(bank.stranger.pubkey(), bank.own)
    ),
    "a locked stake": lambda bank: bank.put(STAKE_PROGRAM, stake(bank.own, bank.own, until=2**40)),
    "wrapped SOL with a delegate": lambda bank: bank.put(
        TOKEN_PROGRAM, wrapped(bank, delegate=True), RENT_TOKEN
    ),
    "wrapped SOL that another may close": lambda bank: bank.put(
        TOKEN_PROGRAM, wrapped(bank, closed_by_another=True), RENT_TOKEN
    ),
}


@promise("arrivals-are-the-wallets")
@pytest.mark.parametrize("place", ANOTHER_MAY_TAKE)
def test_29_what_another_may_take_did_not_arrive(bank: Bank, place: str) -> None:
    account, payer = ANOTHER_MAY_TAKE[place](bank), bank.stranger.pubkey()
    send = transfer(TransferParams(from_pubkey=payer, to_pubkey=account, lamports=5 * SOL))
    sync = [] if "stake" in place else [token(b"\x11", (account, "w"))]
    # The wallet's own account of wrapped SOL gets 1 SOL: that arrives.
    own = bank.put_tokens(bank.wsol, bank.own, 0)
    plain = transfer(TransferParams(from_pubkey=payer, to_pubkey=own, lamports=SOL))
    built = bank.build([send, *sync, plain, token(b"\x11", (own, "w"))], [bank.stranger])
    declared = Intent(type="swap", wallet=bank.address, tokens_in={WRAPPED_SOL_MINT: SOL + 1})
    effects = bank.effects(built)
    judged = verdict(declared, effects)
    assert (judged.rule, effects.tokens_in) == ("simulated_effects", {WRAPPED_SOL_MINT: SOL})
    assert verdict(replace(declared, tokens_in={WRAPPED_SOL_MINT: SOL}), effects).allowed


@promise("arrivals-are-the-wallets")
@pytest.mark.parametrize("right", ["close", "frozen"])
def test_29_tokens_in_an_account_that_others_stop_or_make_again_did_not_arrive(
    bank: Bank, right: str
) -> None:
    data = bytearray(token_data(bank.mint, bank.own, 0))
    if right == "close":
        data[129:165] = b"\x01\0\0\0" + bytes(bank.stranger.pubkey())
    account = bank.put(TOKEN_PROGRAM, bytes(data), RENT_TOKEN)
    signer = bank.stranger.pubkey()
    receive = token(b"\x03" + u64(900), (bank.their_tokens, "w"), (account, "w"), (signer, "s"))
    transaction, keys, simulation = bank.simulate(bank.build([receive], [bank.stranger]))
    if right == "frozen":
        after = simulation.post[str(account)]
        assert after is not None
        data[64:72], data[108] = u64(900), 2
        stopped = replace(after, data=bytes(data))
        simulation = replace(simulation, post={**simulation.post, str(account): stopped})
    effects = simulated_effects(transaction.message, keys, simulation, bank.address)
    assert effects.tokens_in == {}


@promise("arrivals-are-the-wallets")
def test_29_tokens_that_a_delegate_may_take_did_not_arrive(bank: Bank) -> None:
    data = bytearray(token_data(bank.mint, bank.own, 50))
    data[72:108] = b"\x01\0\0\0" + bytes(bank.stranger.pubkey())
    data[121:129] = u64(600)
    account = bank.put(TOKEN_PROGRAM, bytes(data), RENT_TOKEN)
    signer = bank.stranger.pubkey()
    receive = token(b"\x03" + u64(900), (bank.their_tokens, "w"), (account, "w"), (signer, "s"))
    effects = bank.effects(bank.build([receive], [bank.stranger]))
    assert effects.tokens_in == {str(bank.mint): 50 + 900 - 600}
    # Nor does what the wallet moves out of the delegate's reach arrive.
    inside = token(b"\x03" + u64(50), (account, "w"), (bank.tokens, "w"), (bank.own, "s"))
    assert bank.effects(bank.build([inside])).tokens_in == {}


@promise("hidden-accounts-refused")
def test_30_a_ledger_that_hides_inner_instructions_is_not_believed() -> None:
    with pytest.raises(UntrustedSimulation, match="no inner instructions"):
        inner_from_json(None, ())


@promise("hidden-accounts-refused")
def test_30_a_writable_account_that_is_not_shown_is_refused(bank: Bank) -> None:
    transaction, keys, full = bank.simulate(bank.build([pay(bank, DECLARED)]))
    hidden = str(bank.stranger.pubkey())
    for pre, post in (
        ({k: v for k, v in full.pre.items() if k != hidden}, full.post),
        (full.pre, {k: v for k, v in full.post.items() if k != hidden}),
    ):
        effects = analyse(transaction.message, keys, Simulation(pre, post), bank.address)
        judged = verdict(intent(bank), effects)
        assert judged.rule == "simulated_effects"
        assert hidden in (judged.reason or "")
