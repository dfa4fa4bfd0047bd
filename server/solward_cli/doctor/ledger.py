"""Checks of the cluster (`rpc`, `clock`, `funds`, `venue`, `prices`), of Slack and Telegram
(`chats`), and of each configured language model (`models`), which is asked for one word if the
check may spend tokens."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import click
from solders.hash import Hash
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from solward.notify.chats import chats_of, read_answer
from solward.notify.deliveries import new_client, send
from solward.operations.payments.pay import answer_wait_s
from solward.service.cluster import WrongCluster, check_genesis
from solward.settings.addresses import is_loopback
from solward.solana.programs import CLOCK_SYSVAR, STAKE_PROGRAM, TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.protocol import BLOCKHASH_BLOCKS, RENT_OVERHEAD_BYTES, UNMEASURED_SLOT_MS
from solward.solana.stakes import unix_time
from solward.solana.token_list import token_list
from solward.solana.tokens import TOKEN_ACCOUNT_BYTES, associated_address
from solward.types.errors import LedgerError, LedgerRejected, SkillError, SolwardError
from solward.types.guardrail import SOL
from solward.types.money import amount_text, format_amount, format_sol
from solward.types.provider import CompletionRequest, Message
from solward.types.venue import BEST_VENUE, FUNDS_FIRST, QuoteRequest
from solward.vault.grants.dollars import NoPrice
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.protocol import (
    CONFIRMED,
    FINALIZED,
    bounded_s,
    has_certificate,
    sampled_slot_s,
)
from solward.vault.ledger.transport import HttpTransport, host_of, is_enough
from solward.vault.money.engine import confirm_wait_s
from solward.vault.money.judge.blockhash import MAX_AGE_BLOCKS
from solward.vault.money.judge.building import SwapVersions
from solward.vault.money.judge.prices import Prices
from solward.vault.money.send.sender import RESEND_SLOTS
from solward_cli.doctor.subject import (
    Line,
    Status,
    Subject,
    fail,
    fail_on_error,
    grade,
    has_failure,
    ok,
    warn,
)

if TYPE_CHECKING:
    from solward.operations.venues import Venue
    from solward.plugins import LoadedProvider
    from solward.settings import Settings
    from solward.solana.token_list import KnownToken
    from solward.vault.ledger.protocol import Tip
    from solward.vault.money.judge.prices import PriceSource

_SEE_RPC: Final = "see `solward doctor rpc`"
_EMBEDDED: Final = "embedded: a part of the service, which needs no network"
# A public node may lag by some blocks; a transaction can land for as many as the second bound.
_LAG_BLOCKS: Final = (20, BLOCKHASH_BLOCKS)
_SAMPLES: Final = 4
_DAY_S: Final = 86_400
# As many calls as a page of the dashboard and a payment make together.
_AT_ONCE: Final = 20
_CLOCK_S: Final = (30, 300)
_SMALL_SWAP: Final = 10_000_000
_SLIPPAGE_BPS: Final = 100
_MOST_WALLETS: Final = 10
_CHAT: Final = "check the token and this machine's network, and invite the bot to the chat"
_CHAT_S: Final = 10.0
_FAUCET: Final = "https://faucet.solana.com"

# Tokens of the answer: one word, and the reasoning before it.
MOST_TOKENS: Final = 256
_ANSWER_S: Final = 60.0


async def rpc(subject: Subject) -> list[Line]:
    """Check each address of SOLANA_RPC_URL (its cluster, its lag, the methods that the product
    calls), and the version of swaps."""
    if subject.is_embedded:
        takes_v1 = subject.settings.localnet_version_1 == "on"
        return [ok("Ledger", _EMBEDDED), _swaps_line(subject.settings, takes_v1=takes_v1)]
    urls = subject.settings.rpc_urls
    real = tuple(map(subject.real_url, urls))
    nodes = [
        _Node.from_url(number, *each) for number, each in enumerate(zip(urls, real, strict=True), 1)
    ]
    try:
        lines = [line for node in nodes for line in await node.check(subject)]
        takes_v1 = {node.takes_v1 for node in nodes} - {None} == {True}
        lines += [*_lag_lines(nodes), _operators_line(real, subject.settings.mainnet)]
        return [*lines, _swaps_line(subject.settings, takes_v1=takes_v1)]
    finally:
        for node in nodes:
            await node.transport.close()


@dataclass(slots=True)
class _Node:
    """An address of SOLANA_RPC_URL, with a client that asks no other node in its place.

    Attributes:
        takes_v1: whether it accepts transactions of version 1; None if this is not known.
    """

    name: str
    url: str
    transport: HttpTransport
    ledger: Ledger
    tip: Tip | None = None
    slot_s: float = UNMEASURED_SLOT_MS / 1000
    takes_v1: bool | None = None

    @classmethod
    def from_url(cls, number: int, url: str, real: str) -> _Node:
        transport = HttpTransport(url, together=False)
        return cls(f"RPC {number} {urlsplit(real).hostname}", real, transport, Ledger(transport))

    async def check(self, subject: Subject) -> list[Line]:
        began = time.monotonic()
        try:
            genesis = await self.ledger.genesis_hash()
            took = time.monotonic() - began
            check_genesis(genesis, subject.settings.solana_network)
        except LedgerError as error:
            advice = "check the address, its key, and this machine's network"
            if isinstance(error, WrongCluster):
                advice = "make SOLANA_NETWORK and SOLANA_RPC_URL name one network"
            elif isinstance(error, LedgerRejected):
                advice = _PROVIDER
            return [fail(self.name, str(error), advice)]
        lines = [ok(self.name, f"{subject.settings.solana_network}, answered in {took:.2f} s")]
        parts = urlsplit(self.url)
        if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
            found = "http: others can read and change requests on their way"
            lines.append(warn(self.name, found, "use its https:// address"))
        somebody = await _any_address(subject)
        lines += [line async for line in self._method_lines(somebody)]
        lines += [await self._slot_time_line(), await self._consensus_line(somebody)]
        for asked in (self._rent_line, self._history_line):
            with contextlib.suppress(LedgerError):  # Its method's line says why.
                lines.append(await asked())
        return [*lines, await self._rate_line()]

    async def _call_optional(self, method: str, *params: Any) -> tuple[Any, str]:
        """Call a method that not every node serves; return its answer, or why there is none."""
        try:
            return await self.transport.call(method, params), ""
        except LedgerError as error:
            return None, f"{method}: {error}"

    async def _slot_time_line(self) -> Line:
        """Report how long a slot takes, and the times of Solward that depend on it."""
        samples, why = await self._call_optional("getRecentPerformanceSamples", _SAMPLES)
        said_s = sampled_slot_s(samples)
        if said_s is not None:
            self.slot_s = bounded_s(said_s)
        slot_s = self.slot_s
        found = (
            f"slots of {slot_s * 1000:.0f} ms, so a blockhash is valid for"
            f" {BLOCKHASH_BLOCKS * slot_s:.0f} s: a plan expires after"
            f" {MAX_AGE_BLOCKS * slot_s:.1f} s, the same bytes are sent again after"
            f" {RESEND_SLOTS * slot_s:.1f} s, a payment waits {answer_wait_s(slot_s):.0f} s for the"
            f" seller, a call waits {confirm_wait_s(slot_s):.0f} s for the ledger"
        )
        if said_s is None:
            found += f"; assumed until they are measured ({why or 'the node has no samples yet'})"
        if said_s is None or said_s == slot_s:
            return ok(self.name, found)
        lie = f"the node reports implausible slots of {said_s * 1000:.3g} ms; Solward uses"
        return warn(self.name, f"{lie} {found}", "use another node")

    async def _consensus_line(self, somebody: str) -> Line:
        """Report when a block is final, and which transactions the node accepts."""
        certificate, why = await self._call_optional("getAgGenesisCert")
        is_alpenglow = has_certificate(certificate)
        if why:
            consensus = f"consensus unknown ({why})"
        else:
            consensus = "Alpenglow" if is_alpenglow else "TowerBFT"
        version, why = await self._call_optional("getVersion")
        core = version.get("solana-core") if isinstance(version, Mapping) else None
        software = f"software {core}" if isinstance(core, str) else f"software unknown ({why})"
        self.takes_v1 = await SwapVersions(self.ledger).query_support(somebody)
        takes = "legacy, 0 and 1" if self.takes_v1 else "legacy and 0"
        if self.takes_v1 is None:
            takes += "; unknown for 1"
        word = FINALIZED if is_alpenglow else CONFIRMED
        found = f"{consensus}, read at {word}; {software}; versions {takes}"
        return ok(self.name, found)

    async def _method_lines(self, somebody: str) -> AsyncIterator[Line]:
        """Call each method that the product uses, and report those that fail, and why."""
        works = 0
        for method, call in _METHODS.items():
            try:
                await call(self, somebody)
                works += 1
            except LedgerError as error:
                advice = _NEEDED.get(method, _PROVIDER)
                yield fail(self.name, f"{method}: {error}", advice)
        if works == len(_METHODS):
            yield ok(self.name, f"answers the {works} methods that Solward calls")

    async def _rent_line(self) -> Line:
        rent = await self.ledger.rent_exempt_minimum(TOKEN_ACCOUNT_BYTES)
        byte = rent // (TOKEN_ACCOUNT_BYTES + RENT_OVERHEAD_BYTES)
        found = f"rent: {byte} lamports a byte, {format_sol(rent)} SOL for a token account"
        return ok(self.name, found)

    async def _history_line(self) -> Line:
        self.tip = await self.ledger.tip()
        first = await self.ledger.first_slot()
        days = (self.tip.slot - first) * self.slot_s / _DAY_S
        found = f"history from slot {first}" + (f", about {days:.0f} days" if days >= 1 else "")
        if first and days < 1:
            advice = "the node has no older transactions: add a node that keeps them"
            return warn(self.name, found, advice)
        return ok(self.name, found)

    async def _rate_line(self) -> Line:
        """Report how the node answers `_AT_ONCE` calls at the same time."""
        began = time.monotonic()
        calls = (self.transport.call("getSlot", ()) for _ in range(_AT_ONCE))
        answers = await asyncio.gather(*calls, return_exceptions=True)
        took = time.monotonic() - began
        errors = [each for each in answers if isinstance(each, BaseException)]
        if errors:
            found = f"{len(errors)} of {_AT_ONCE} calls at once were refused: {errors[0]}"
            return warn(self.name, found, "use a plan with a higher rate, or add a second address")
        return ok(self.name, f"{_AT_ONCE} calls at once were answered in {took:.2f} s")


_PROVIDER: Final = "use a provider or a plan that serves it"
_NEEDED: Final = {
    "getProgramAccounts": "stakes need this method: use a provider or a plan that serves it",
    "simulateTransaction": "nothing is signed without this method: use a provider that serves it",
}

_Call = Callable[[_Node, str], Awaitable[Any]]


async def _simulate(node: _Node, somebody: str) -> Any:
    """Simulate a payment of 0 lamports to oneself; a refusal of an empty account also counts."""
    latest = await node.ledger.latest_blockhash()
    key = Pubkey.from_string(somebody)
    nothing = transfer(TransferParams(from_pubkey=key, to_pubkey=key, lamports=0))
    blockhash = Hash.from_string(latest.blockhash)
    message = MessageV0.try_compile(key, [nothing], [], blockhash)
    wire = bytes(VersionedTransaction.populate(message, [Signature.default()]))
    return await node.ledger.simulate(wire, [somebody])


async def _read_validators_transaction(node: _Node, _somebody: str) -> Any:
    """Read a transaction of a validator, so that no user's wallet is named."""
    voters = await node.ledger.vote_accounts()
    who = voters[0].address if voters else STAKE_PROGRAM
    listed = await node.transport.call("getSignaturesForAddress", (who, {"limit": 1}))
    if listed:
        return await node.ledger.transaction(str(listed[0]["signature"]))
    return None


_METHODS: Final[Mapping[str, _Call]] = {
    "getEpochInfo": lambda node, _: node.ledger.tip(),
    "getSlot": lambda node, _: node.ledger.slot(),
    "getBlockHeight": lambda node, _: node.ledger.block_height(),
    "getLatestBlockhash": lambda node, _: node.ledger.latest_blockhash(),
    "getMinimumBalanceForRentExemption": lambda node, _: node.ledger.rent_exempt_minimum(165),
    "getBalance": lambda node, somebody: node.ledger.balance(somebody),
    "getAccountInfo": lambda node, somebody: node.ledger.account(somebody),
    "getMultipleAccounts": lambda node, somebody: node.ledger.accounts([somebody]),
    "getTokenAccountsByOwner": lambda node, somebody: node.ledger.holdings(somebody),
    "getProgramAccounts": lambda node, somebody: node.ledger.program_accounts(
        STAKE_PROGRAM, size=200, offset=44, key=somebody
    ),
    "getVoteAccounts": lambda node, _: node.ledger.vote_accounts(),
    "getStakeMinimumDelegation": lambda node, _: node.ledger.stake_minimum_delegation(),
    "getFirstAvailableBlock": lambda node, _: node.ledger.first_slot(),
    "getSignatureStatuses": lambda node, _: node.ledger.statuses(
        [str(Signature.default())], search_history=True
    ),
    "getSignaturesForAddress": _read_validators_transaction,
    "getRecentPrioritizationFees": lambda node, somebody: node.ledger.prioritization_fees(
        [somebody]
    ),
    "simulateTransaction": _simulate,
}


async def _any_address(subject: Subject) -> str:
    """Return the first wallet's address, or an unused address if there is no wallet."""
    wallets = await subject.wallets()
    return str(wallets[0]["public_key"]) if wallets else str(Keypair().pubkey())


def _lag_lines(nodes: list[_Node]) -> list[Line]:
    known = {node.name: node.tip.block_height for node in nodes if node.tip is not None}
    lags = {name: max(known.values()) - height for name, height in known.items()}
    return [
        grade(
            name, f"{lag} blocks behind the others", "use another node", at=lag, bounds=_LAG_BLOCKS
        )
        for name, lag in lags.items()
        if len(known) > 1
    ]


def _swaps_line(settings: Settings, *, takes_v1: bool) -> Line:
    """Report the transaction version of swaps that a venue builds as instructions."""
    setting = settings.transaction_version
    version = int(takes_v1) if setting == "auto" else setting
    found = f"built in version {version} (TRANSACTION_VERSION={setting})"
    if version and not takes_v1:
        lacks = f"{found}, which not every node accepts, so swaps are refused"
        return fail("Swaps", lacks, "set TRANSACTION_VERSION=auto")
    return ok("Swaps", found)


def _operators_line(urls: tuple[str, ...], mainnet: bool) -> Line:
    names = {operator_of(url) for url in urls}
    if is_enough(names):
        return ok("Operators", f"{len(names)}: {', '.join(sorted(names))}")
    found = f"one, {names.pop()}: its answers alone cannot release a reservation within its window"
    if mainnet:
        return warn("Operators", found, "add an address of another operator to SOLANA_RPC_URL")
    return ok("Operators", found)


def operator_of(url: str) -> str:
    """Name the operator of a URL by the last two labels of its host, or by its IP address."""
    host = host_of(url)
    labels = host.split(".")
    return host if labels[-1].isdecimal() or ":" in host else ".".join(labels[-2:])


@fail_on_error("Clock", _SEE_RPC)
async def clock(subject: Subject) -> list[Line]:
    """Compare this machine's clock with the ledger's."""
    if subject.is_embedded:
        return [ok("Clock", _EMBEDDED)]
    ledger = unix_time(await (await subject.cluster()).ledger.account(CLOCK_SYSVAR))
    ahead = time.time() - ledger
    found = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the ledger's time"
    advice = "set the machine's clock, and keep it set (NTP)"
    return [grade("Clock", found, advice, at=abs(ahead), bounds=_CLOCK_S)]


@fail_on_error("Wallets", _SEE_RPC)
async def funds(subject: Subject) -> list[Line]:
    """Check that a wallet exists and holds SOL, without which nothing can be sent."""
    wallets = await subject.wallets()
    if subject.is_embedded:
        return [ok("Wallets", f"{len(wallets)}, funded by the service's own faucet")]
    if not wallets:
        advice = "start the service, then `solward wallet create treasury`"
        return [fail("Wallets", "there are none", advice)]
    lines = []
    ledger = (await subject.cluster()).ledger
    for row in wallets[:_MOST_WALLETS]:
        held = await ledger.balance(row["public_key"])
        name, found = str(row["name"]), f"{format_sol(held)} SOL at {row['public_key']}"
        lines.append(ok(name, found) if held else warn(name, found, _first_funds(subject, name)))
    if all(line.status is Status.WARN for line in lines):
        lines.append(fail("Funds", "no wallet holds SOL", "send SOL to one of them"))
    return lines


def _first_funds(subject: Subject, wallet: str) -> str:
    if subject.settings.mainnet:
        return "send SOL to this address, a small amount first"
    ask = f"`solward wallet airdrop {wallet}`"
    if subject.settings.solana_network == "devnet":
        return f"{ask}; if the faucet refuses, paste the address at {_FAUCET}"
    return ask


@fail_on_error("Venues", _SEE_RPC)
async def venue(subject: Subject) -> list[Line]:
    """Ask each venue for a small swap and its instructions; nothing is sent."""
    if subject.is_embedded:
        return [ok("Market", _EMBEDDED)]
    tokens = token_list(subject.settings.solana_network)
    into = next((each for each in tokens if each.symbol == "USDC"), None)
    if into is None:
        return [warn("Swaps", "no token to swap into is known on this network", "nothing to do")]
    found = await subject.venues()
    chosen = subject.settings.swap_venue
    enabled = [each for each in found if chosen in (BEST_VENUE, each.name)]
    if not enabled:
        advice = "change SWAP_VENUE, or see `solward plugins list`"
        return [fail("Venues", f"{chosen} is not loaded", advice)]
    offers = [await _offer_lines(subject, each, into) for each in enabled if each.lacks is None]
    lines = [line for each in offers for line in each]
    if not all(map(has_failure, offers)):
        # Swaps work while one venue answers, so a failure of another only warns.
        warned = Status.WARN
        lines = [each._replace(status=warned) if has_failure([each]) else each for each in lines]
    lacking = [(each.name, each.lacks) for each in enabled if each.lacks is not None]
    if lines:
        return lines + [ok(name, f"was not asked: {lacks}") for name, lacks in lacking]
    return [fail(name, "cannot be asked", lacks) for name, lacks in lacking]


async def _offer_lines(subject: Subject, venue: Venue, into: KnownToken) -> list[Line]:
    plugin, context = venue.plugin, venue.context
    name = plugin.spec.name
    request = QuoteRequest(WRAPPED_SOL_MINT, into.mint, _SMALL_SWAP, _SLIPPAGE_BPS)
    host = urlsplit(subject.real_url(str(context.http.base_url))).hostname or "the ledger"
    try:
        quote = await plugin.quote(request, context)
    except SolwardError as error:
        return [fail(name, f"{host}: {error}", _venue_advice(venue))]
    out, least = (
        amount_text(units, into.decimals) for units in (quote.out_amount, quote.minimum_out)
    )
    sol = format_sol(_SMALL_SWAP)
    impact = format_amount((quote.price_impact * 100).quantize(Decimal("0.01")))
    found = f"{host}: {sol} SOL buys {out} {into.symbol}, at least {least}; impact {impact} %"
    lines = [ok(name, found)]
    if not plugin.gives_instructions:
        return lines
    taker = str(Keypair().pubkey())
    destination = associated_address(taker, into.mint, TOKEN_PROGRAM)
    try:
        made = await plugin.instructions(quote, taker, destination, context, None)
    except SolwardError as error:
        if isinstance(error, SkillError) and error.code == FUNDS_FIRST:
            return [*lines, ok(name, f"{host}: swaps in several steps, after funding a pocket")]
        return [*lines, fail(name, f"{host}: no instructions: {error}", _venue_advice(venue))]
    found = f"{host}: the swap is one instruction over {len(made.swap.accounts)} accounts"
    return [*lines, ok(name, found)]


def _venue_advice(venue: Venue) -> str:
    spec = venue.plugin.spec
    named = [each for each in (spec.base_url_env, spec.secret_env) if each is not None]
    return f"check {', '.join([*named, 'SWAP_VENUE'])}, and this machine's network"


@fail_on_error("Prices", _SEE_RPC)
async def prices(subject: Subject) -> list[Line]:
    """Check each source of dollar prices, and the combined price that grants in dollars need."""
    if subject.is_embedded:
        return [ok("Prices", _EMBEDDED)]
    sources = (await subject.cluster()).price_sources
    if not sources:
        return [ok("Prices", "no source of prices: grants in dollars allow nothing, others work")]
    return await _price_lines(sources, subject.settings)


async def _price_lines(sources: Sequence[PriceSource], settings: Settings) -> list[Line]:
    lines = []
    questions = {each.name: [each] for each in sources}
    if len(sources) > 1:
        questions["Together"] = [*sources]
    for name, asked in questions.items():
        together = Prices(
            asked,
            max_age_ms=settings.price_max_age_s * 1000,
            max_spread_bps=settings.price_max_spread_bps,
        )
        price = (await together.prices([SOL]))[SOL]
        await together.close()
        if isinstance(price, NoPrice):
            advice = "check its address and its key, PRICE_MAX_AGE_S and PRICE_MAX_SPREAD_BPS"
            lines.append(fail(name, f"SOL: {price.reason}", advice))
        else:
            lines.append(ok(name, f"one SOL is {float(price.usd):.2f} dollars"))
    return lines


@fail_on_error("Providers", "see `solward plugins list`")
async def models(subject: Subject) -> list[Line]:
    """Check that each vendor that has a key answers, with the models that agents use."""
    registry, settings = await subject.registry(), subject.settings
    providers = {
        name: each
        for name, each in registry.providers.items()
        if each.spec.is_llm and settings.configured(each.spec)
    }
    lines = []
    for name, model in sorted(await _list_llms(subject, providers)):
        if name not in providers:
            known = registry.providers.get(name)
            variable = "" if known is None else known.spec.secret_env
            advice = f"set {variable}" if variable else "see `solward plugins list`"
            lines.append(
                fail(f"{name}/{model}", "an agent uses it, but the vendor has no key", advice)
            )
        elif subject.spends:
            lines.append(await _probe_model(subject, providers[name], model))
        else:
            found = f"has a key; not asked, because an answer costs up to {MOST_TOKENS} tokens"
            lines.append(ok(f"{name}/{model}", f"{found} (`solward doctor models`)"))
    advice = "set a vendor's key, such as ANTHROPIC_API_KEY"
    return lines or [warn("Providers", "no vendor has a key", advice)]


async def _list_llms(
    subject: Subject, providers: dict[str, LoadedProvider]
) -> set[tuple[str, str]]:
    """Return `(vendor, model)` of each agent, of the settings and of each other vendor."""
    settings = subject.settings
    used: set[tuple[str, str]] = set()
    registry = await subject.registry()
    for row in await subject.agents():
        loaded = registry.providers.get(row["llm_provider"])
        if loaded is None or loaded.spec.is_llm:
            used.add((row["llm_provider"], row["llm_model"]))
    asked = {name for name, _ in used}
    for name, each in providers.items():
        if name == settings.default_llm_provider and settings.default_llm_model:
            used.add((name, settings.default_llm_model))
        elif name not in asked:
            used.add((name, each.spec.default_model))
    return used


async def _probe_model(subject: Subject, provider: LoadedProvider, model: str) -> Line:
    request = CompletionRequest(
        model=model,
        system="Answer with one word.",
        messages=(Message("user", "Say ok."),),
        max_output_tokens=MOST_TOKENS,
    )
    name = f"{provider.spec.name}/{model}"
    # The user is told of the cost before it is spent.
    click.echo(f"Asking {name} for one word: up to {MOST_TOKENS} tokens.", err=True)
    began = time.monotonic()
    try:
        context = subject.settings.provider_context(provider.spec)
        async with asyncio.timeout(_ANSWER_S):
            answer = await provider.complete(request, None, context)
    except TimeoutError:
        return fail(name, f"no answer within {_ANSWER_S:g} s", "check this machine's network")
    except SolwardError as error:
        return fail(name, str(error), f"check {provider.spec.secret_env} and the model's name")
    took = time.monotonic() - began
    tokens = "" if answer.usage is None else f", {answer.usage.tokens} tokens"
    return ok(name, f"answered in {took:.1f} s{tokens}")


@fail_on_error("Chats", "change the variable named here")
async def chats(subject: Subject) -> list[Line]:
    """Check the tokens of Slack and Telegram, without a message."""
    lines = []
    async with new_client() as client:
        for chat in chats_of(subject.settings):
            failure = await send(client, chat.check(), read_answer, _CHAT_S)
            line = ok(chat.setting, f"{chat.channel} accepts the token")
            if failure is not None:
                line = fail(chat.setting, f"{chat.channel}: {failure.text}", _CHAT)
            lines.append(line)
    return lines or [ok("Chats", "no messages about holds to Slack or Telegram")]
