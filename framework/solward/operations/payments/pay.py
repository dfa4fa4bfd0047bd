"""Payment for a request: send it to the seller, choose an offer, send it again with a payment, and
store the answer."""

from __future__ import annotations

import asyncio
import base64
import codecs
from collections.abc import Collection, Coroutine, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final, TypeVar

import structlog

from solward.database.database import Database
from solward.operations.payments.offers import (
    Assets,
    ChosenOffer,
    Terms,
    check_offer,
    no_offer_error,
    payment_draft,
    preferred_offer,
)
from solward.operations.payments.requests import (
    MAX_ANSWER_BYTES,
    SellerRequest,
    SiteAnswer,
    Sites,
    read_request,
    shown_headers,
)
from solward.plugins.loaded import LoadedPayment
from solward.plugins.payment_checks import MAX_OFFERS
from solward.resources import payments as answers
from solward.resources.declare import answer_json
from solward.solana.protocol import BLOCKHASH_BLOCKS, CHAIN_IDS, chain_id
from solward.solana.token_list import TokenList
from solward.support.clean_text import one_line
from solward.support.clock import now_ms
from solward.types.errors import (
    IdempotencyInFlight,
    InvalidRequest,
    LedgerError,
    NotFound,
    PaymentRefused,
    SkillError,
    TransactionError,
)
from solward.types.guardrail import SOL
from solward.types.manifest import site_name
from solward.types.money import from_units
from solward.types.payment import (
    ANSWER_WAIT_S,
    HttpAnswer,
    PaidAnswer,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentView,
    PayRequest,
    Served,
    read_offer,
)
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.custody import Wallet, Wallets
from solward.vault.ledger.client import Ledger
from solward.vault.money.engine import Engine
from solward.vault.money.outcomes import Trial, refusal, wait_for_task
from solward.vault.money.request import Actor, Draft, Payment
from solward.vault.store import payments as store
from solward.vault.store import recipients, spending
from solward.vault.store import transactions as transaction_store
from solward.vault.store.payments import PaymentRow, StoredAnswer

T = TypeVar("T")

# A seller may compute the answer before it asks for a payment, or before it begins to answer a paid
# request. For a paid request it has the time in which it can settle the payment, plus
# `ANSWER_MARGIN_S`, but at most the whole time that a caller waits.
ASK_WAIT_S: Final = 15.0
ANSWER_MARGIN_S: Final = 10.0
# A payment usually lands within this time after its answer.
SETTLE_WAIT_S: Final = 2.0
_CLOSE_WAIT_S: Final = 5.0
# The maximum number of fee payers remembered as not being wallets; sellers choose them.
_MOST_STRANGERS: Final = 1_000
# A principal's stored answers use at most a tenth of all space, not counting its newest answer.
ONE_IN: Final = 10

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PaymentQuote:
    """The result of a dry run of a payment.

    Attributes:
        answer: the seller's answer to the request without a payment.
        payment: the payment that would be made; None if the seller asks for none.
        trial: the payment's dry run, in which nothing is stored or signed; None without a payment.
        description: the seller's description of its goods; one line.
    """

    answer: PaidAnswer
    payment: Payment | None = None
    trial: Trial | None = None
    symbol: str | None = None
    description: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the route's answer to a dry run; `offer` is null if there would be no payment."""
        status = {"status": self.answer.status}
        if self.payment is None or self.trial is None:
            return {
                "dryRun": True,
                "allowed": True,
                "guardrailsApplied": [],
                "offer": None,
            } | status
        offer = answer_json(
            answers.PaymentOffer,
            self.payment,
            symbol=self.symbol,
            amount=from_units(self.payment.units, self.payment.decimals),
            description=self.description or None,
        )
        return self.trial.to_json() | {"offer": offer} | status


@dataclass(slots=True)
class Payments:
    """Makes payments over HTTP for all wallets of a service.

    Attributes:
        answers_max_bytes: maximum bytes of all stored answers of sellers; see `ONE_IN`.
        localnet_as: the network whose offers count as the localnet's; see PAYMENTS_LOCALNET_AS.
        resource_sites: see PAYMENTS_RESOURCE_SITES.
    """

    engine: Engine
    database: Database
    wallets: Wallets
    ledger: Ledger
    tokens: TokenList
    network: str
    sites: Sites
    answers_max_bytes: int
    localnet_as: str | None = None
    resource_sites: Collection[str] = ()
    _protocols: Mapping[str, LoadedPayment] = field(default_factory=dict, init=False)
    _assets: Assets = field(init=False)
    _chain: str | None = field(default=None, init=False)
    _strangers: set[str] = field(default_factory=set, init=False)
    _busy: set[str] = field(default_factory=set, init=False)
    _running: set[asyncio.Task[Any]] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self._assets = Assets(self.ledger)

    def use_protocols(self, protocols: Mapping[str, LoadedPayment]) -> None:
        """Set the payment protocols to use from now on."""
        self._protocols = protocols

    async def pay(self, wallet_id: str, actor: Actor, request: PayRequest) -> PaidAnswer:
        """Make a request, and pay for it at most once if the seller asks for a payment.

        A repeated action or Idempotency-Key gets the stored answer. If no answer came, the same
        payment is sent again while it may land. Cancelling the call does not cancel a signed
        payment.

        Returns:
            The seller's answer, of any status, or of status 0 if none came in time; `payment` says
            what was paid.

        Raises:
            WalletNotFound: no such wallet.
            InvalidRequest: a field is wrong; names it.
            PaymentRefused: no offer of the seller may be paid; nothing was judged or stored.
            IdempotencyInFlight: the same request is still running.
            The errors of `Engine.hand_over` and `Engine.execute`.
        """
        wallet = await self.wallets.get(wallet_id)
        asked = read_request(request, needs_most=not actor.is_admins)
        with self._lock_action(actor):
            known = await self._earlier_payment_id(actor)
            if known is not None:
                return await self.repeat(known, asked)
            return await self._pay_new(wallet, actor, asked)

    async def quote(self, wallet_id: str, actor: Actor, request: PayRequest) -> PaymentQuote:
        """Send the request without a payment, and return what `pay` would pay; nothing is stored.

        Raises:
            Same as `pay` before anything is judged.
        """
        wallet = await self.wallets.get(wallet_id)
        asked = read_request(request, needs_most=not actor.is_admins)
        found = await self._ask_seller(asked, actor.principal)
        answer = _unpaid_answer(found)
        if found.answer.status != HTTPStatus.PAYMENT_REQUIRED:
            return PaymentQuote(answer)
        with self.engine.deadline():
            chosen = await self._choose_offer(wallet, asked, found.answer)
        draft = payment_draft(wallet.address, asked, chosen)
        trial = await self.engine.dry_run(wallet_id, actor, draft)
        symbol, description = self._symbol(chosen.asset.mint), one_line(chosen.offer.description)
        return PaymentQuote(answer, draft.payment, trial, symbol, description)

    async def repeat(self, transaction_id: str, request: SellerRequest | PayRequest) -> PaidAnswer:
        """Return the answer to an earlier payment when its request is repeated; nothing is signed.

        If no answer is stored, the same payment is sent again while the seller can settle it, but
        not while the wallet is frozen.

        Raises:
            InvalidRequest: the payment was for another request.
            TransactionError: the payment was blocked or failed, and the seller did not answer.
            IdempotencyInFlight: the payment is being sent to the seller.
        """
        asked = (
            read_request(request, needs_most=False) if isinstance(request, PayRequest) else request
        )
        try:
            record, row, wire = await self.engine.payment(transaction_id)
        except NotFound:
            # The payment was refused before anything was reserved, so only a record may exist.
            async with self.database.read() as connection:
                refused_record = await transaction_store.get(connection, transaction_id)
            if refused_record is None:
                raise
            raise refusal(refused_record) from None
        if row.fingerprint != asked.fingerprint:
            raise InvalidRequest(
                "url, method, headers or body are not those of the request that this action paid"
                " for before"
            )
        if row.answer is not None or not row.offer:
            return await self.answer(transaction_id)
        if record.status in (TransactionStatus.BLOCKED, TransactionStatus.FAILED):
            raise refusal(record)
        wallet = await self.wallets.get(record.wallet_id)
        offer = read_offer(row.offer)
        if row.mode is PaymentMode.PUSH:
            proof = None
            if record.status is TransactionStatus.CONFIRMED:
                proof = PaymentProof(row.mode, wallet.address, signature=record.signature)
        else:
            async with self.database.read() as connection:
                frozen = await spending.freeze_reason(connection, wallet.id)
            # Only a seller that has the bytes already can use them while the wallet is frozen.
            shown = wire is not None and frozen is None
            proof = PaymentProof(row.mode, wallet.address, wire=wire) if shown else None
        if proof is None:
            return await self.answer(transaction_id)
        return await self._shield(self._send_paid(record, asked, row.protocol, offer, proof))

    async def answer(self, transaction_id: str, given: StoredAnswer | None = None) -> PaidAnswer:
        """Return a payment with its stored answer.

        Args:
            given: the received answer, because newer answers may have displaced the stored one.

        Raises:
            NotFound: the payment does not exist.
        """
        async with self.database.read() as connection:
            row = await store.get(connection, transaction_id)
            record = await transaction_store.get(connection, transaction_id)
            states = await store.states(connection, [transaction_id])
        if row is None or record is None:
            raise NotFound("Payment not found")
        if given is not None and row.answer == replace(given, headers=(), body=b"", is_whole=False):
            row = replace(row, answer=given)
        symbol = self._symbol(row.asset)
        return stored_answer(row, store.payment_view(record, row, states[record.id], symbol))

    async def list_payments(
        self, wallet_id: str | None, limit: int, before: str | None
    ) -> list[PaymentView]:
        """Return payments of one wallet or all, newest first, older than the payment `before`.

        Raises:
            WalletNotFound: no such wallet.
            InvalidRequest: `before` is not the id of a payment.
        """
        if wallet_id is not None:
            await self.wallets.get(wallet_id)
        async with self.database.read() as connection:
            if before is not None and await store.get(connection, before) is None:
                raise InvalidRequest("before must be the id of a payment")
            rows = await store.list_payments(connection, wallet_id, limit, before)
            ids = [row.transaction_id for row in rows]
            states = await store.states(connection, ids)
            records = await transaction_store.of_ids(connection, ids)
        return [
            store.payment_view(records[id_], row, states[id_], self._symbol(row.asset))
            for id_, row in zip(ids, rows, strict=True)
        ]

    def _symbol(self, asset: str) -> str | None:
        return SOL if asset == SOL else self.tokens.symbol_of(asset)

    @property
    def _max_bytes_of_one(self) -> int:
        """The maximum bytes of one principal's stored offers and answers."""
        return self.answers_max_bytes // ONE_IN

    async def close(self) -> None:
        """Wait a while for sellers' answers, then close the connections. The next start treats
        interrupted payments as after a crash."""
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=_CLOSE_WAIT_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late)
        await self.sites.close()

    async def _earlier_payment_id(self, actor: Actor) -> str | None:
        """Return the id of the payment of an earlier call with this action, or None."""
        try:
            record = await self.engine.find_action(actor)
        except TransactionError as error:
            # The seller may have answered even if the payment failed.
            record = error.record
        return None if record is None else record.id

    async def _pay_new(self, wallet: Wallet, actor: Actor, request: SellerRequest) -> PaidAnswer:
        found = await self._ask_seller(request, actor.principal)
        if found.answer.status != HTTPStatus.PAYMENT_REQUIRED:
            return _unpaid_answer(found)
        with self.engine.deadline():
            chosen = await self._choose_offer(wallet, request, found.answer)
        draft = payment_draft(wallet.address, request, chosen)
        actor = replace(actor, recipe=None)
        return await self._shield(self._pay_offer(wallet, actor, request, chosen, draft))

    async def _ask_seller(self, request: SellerRequest, who: str) -> SiteAnswer:
        found = await self.sites.request(request, ASK_WAIT_S, who=who)
        if found.broken:
            raise PaymentRefused(
                "no_answer", f"{site_name(request.site)}: its answer broke off or took too long"
            )
        return found

    async def _choose_offer(
        self, wallet: Wallet, request: SellerRequest, answer: HttpAnswer
    ) -> ChosenOffer:
        loaded = self._protocols
        if request.protocol is not None:
            if request.protocol not in loaded:
                known = ", ".join(loaded) or "none is loaded"
                raise InvalidRequest(f"protocol must be one of the loaded protocols ({known})")
            loaded = {request.protocol: loaded[request.protocol]}
        found: list[tuple[str, PaymentOffer]] = []
        reasons: list[tuple[str, InvalidRequest]] = []
        odd: list[tuple[str, InvalidRequest]] = []
        for name, protocol in loaded.items():
            try:
                made = await protocol.offers(answer)
            except (InvalidRequest, SkillError) as error:
                reasons.append((name, InvalidRequest(one_line(str(error)))))
            else:
                for each in made[:MAX_OFFERS]:
                    if isinstance(each, InvalidRequest):
                        odd.append((name, InvalidRequest(one_line(str(each)))))
                    else:
                        found.append((name, each))
        terms = await self._terms(wallet, request, [each for _, each in found])
        terms.max_price()
        candidates: list[ChosenOffer] = []
        unread: LedgerError | None = None
        for name, offer in found:
            try:
                asset, modes = await check_offer(offer, terms, self._assets)
            except PaymentRefused as error:
                reasons.append((name, error))
            except LedgerError as error:
                # If an offer names an odd account, no node may be able to answer.
                unread = error
            else:
                candidates += [ChosenOffer(name, offer, mode, asset) for mode in modes]
        if not candidates:
            raise unread or no_offer_error(site_name(request.site), [*reasons, *odd])
        return preferred_offer(candidates)

    async def _terms(
        self, wallet: Wallet, request: SellerRequest, offers: Sequence[PaymentOffer]
    ) -> Terms:
        networks = {self.network}
        if self.network in CHAIN_IDS:
            networks.add(CHAIN_IDS[self.network])
        elif any(":" in each.network for each in offers):
            if self._chain is None:
                self._chain = chain_id(await self.ledger.genesis_hash())
            networks.add(self._chain)
        if self.localnet_as is not None:
            networks |= {self.localnet_as, CHAIN_IDS[self.localnet_as]}
        payers = {each.fee_payer for each in offers if each.fee_payer is not None}
        managed = await self._managed_payers(payers - self._strangers)
        sites = self.resource_sites
        return Terms(request, networks, wallet.address, self.tokens, managed, sites)

    async def _managed_payers(self, payers: Set[str]) -> frozenset[str]:
        """Return the payers that are keys of this service's wallets. Other payers are cached here,
        and checked again by the reservation."""
        if not payers:
            return frozenset()
        async with self.database.read() as connection:
            found = await recipients.own_addresses(connection, payers)
        if len(self._strangers) + len(payers) > _MOST_STRANGERS:
            self._strangers.clear()
        self._strangers |= payers - found
        return found

    async def _pay_offer(
        self,
        wallet: Wallet,
        actor: Actor,
        request: SellerRequest,
        chosen: ChosenOffer,
        draft: Draft,
    ) -> PaidAnswer:
        if chosen.mode is PaymentMode.PUSH:
            # `repeat` sends the payment once it has landed, and checks that the action's payment
            # was for this request.
            record = await self.engine.execute(wallet.id, actor, draft)
            return await self.repeat(record.id, request)
        handed = await self.engine.hand_over(wallet.id, actor, draft)
        if handed.wire is None:
            # Meanwhile another process, or a caller that left, has made the action's payment.
            return await self.repeat(handed.record.id, request)
        proof = PaymentProof(chosen.mode, wallet.address, wire=handed.wire)
        return await self._send_paid(handed.record, request, chosen.protocol, chosen.offer, proof)

    async def _send_paid(
        self,
        record: TransactionRecord,
        request: SellerRequest,
        protocol_name: str,
        offer: PaymentOffer,
        proof: PaymentProof,
    ) -> PaidAnswer:
        """Send the request with its payment, store the answer, and wait a little for the ledger."""
        protocol = self._protocols.get(protocol_name)
        if protocol is None:
            raise PaymentRefused(
                "protocol_unknown", f"{protocol_name} is not loaded, so the payment cannot be sent"
            )
        answer = None
        with self._lock_name(record.id):
            try:
                made = shown_headers(await protocol.headers(offer, proof), protocol_name)
                wait_s = answer_wait_s(self.ledger.slot_s)
                found = await self.sites.request(request, wait_s, made, who=record.principal)
            except (InvalidRequest, SkillError) as error:
                _log.warning("payment_not_answered", transaction=record.id, error=str(error))
                await self.engine.note_no_answer(record.id, self._max_bytes_of_one)
            else:
                answer = await self._store_answer(record, protocol, offer, found)
        await self.engine.wait_until_settled(record.id, SETTLE_WAIT_S)
        return await self.answer(record.id, answer)

    async def _store_answer(
        self,
        record: TransactionRecord,
        protocol: LoadedPayment,
        offer: PaymentOffer,
        found: SiteAnswer,
    ) -> StoredAnswer:
        answer = found.answer
        served = Served.YES if 200 <= answer.status < 300 else Served.NO
        receipt = await protocol.receipt(offer, answer)
        kept = StoredAnswer(
            status=answer.status,
            headers=answer.headers,
            body=answer.body,
            served=Served.UNKNOWN if found.broken else served,
            hint=None if receipt is None else receipt.signature,
            answered_ms=now_ms(),
        )
        await self.engine.note_answer(record.id, kept, self._max_bytes_of_one)
        return kept

    @contextmanager
    def _lock_action(self, actor: Actor) -> Iterator[None]:
        """Refuse a second request with the same action or Idempotency-Key while the block runs."""
        key = actor.action_key
        if key is None and actor.idempotency is not None:
            key = actor.idempotency.scope
        if key is None:
            yield
            return
        with self._lock_name(f"action:{key}"):
            yield

    @contextmanager
    def _lock_name(self, name: str) -> Iterator[None]:
        if name in self._busy:
            raise IdempotencyInFlight
        self._busy.add(name)
        try:
            yield
        finally:
            self._busy.discard(name)

    async def _shield(self, work: Coroutine[Any, Any, T]) -> T:
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        await wait_for_task(task)
        return task.result()


def answer_wait_s(slot_s: float) -> float:
    """Return the seconds that a seller has to begin its answer to a payment."""
    return min(ANSWER_WAIT_S, BLOCKHASH_BLOCKS * slot_s + ANSWER_MARGIN_S)


def _unpaid_answer(found: SiteAnswer) -> PaidAnswer:
    answer = found.answer
    return PaidAnswer(
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        payment=None,
        truncated=found.truncated,
    )


def stored_answer(row: PaymentRow, view: PaymentView) -> PaidAnswer:
    """Return a seller's answer to a payment; its status is 0 if no answer came."""
    answer = row.answer
    if answer is None:
        return PaidAnswer(status=0, headers=(), body=b"", payment=view)
    return PaidAnswer(
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        payment=view,
        # If an answer broke off, its received part is stored, and it counts as no answer.
        truncated=len(answer.body) >= MAX_ANSWER_BYTES
        or answer.served is Served.UNKNOWN
        or not answer.is_whole,
    )


def response_json(answer: PaidAnswer) -> dict[str, Any] | None:
    """Return the API's JSON of a seller's answer; None if no answer came."""
    if not answer.status:
        return None
    headers: dict[str, str] = {}
    for name, value in answer.headers:
        lower = name.lower()
        headers[lower] = f"{headers[lower]}, {value}" if lower in headers else value
    shown: dict[str, Any] = {"status": answer.status, "headers": headers}
    text = None if "content-encoding" in headers else _decoded_text(answer.body, answer.truncated)
    if text is None:
        shown["bodyBase64"] = base64.b64encode(answer.body).decode()
    else:
        shown["body"] = text
    shown["truncated"] = answer.truncated
    return shown


def paid_json(answer: PaidAnswer) -> dict[str, Any]:
    """Return the API's JSON of an answer and its payment."""
    payment = answer.payment
    return {
        "response": response_json(answer),
        "payment": None if payment is None else payment.to_json(),
    }


def _decoded_text(body: bytes, truncated: bool) -> str | None:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        # If the text is truncated, a character that is cut at its end is left out.
        return decoder.decode(body, final=not truncated)
    except UnicodeDecodeError:
        return None
