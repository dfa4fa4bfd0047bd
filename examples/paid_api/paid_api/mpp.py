"""MPP: `charge` by the method `solana`, where the buyer pays the network fee.

The buyer hands the transaction over and the seller sends it, or the buyer has sent it and shows its
signature (push mode). The seller needs no key and no facilitator: it reads the transaction on the
ledger, and serves each signature once.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from quart import Response, current_app, jsonify, request
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction

from .charging import CannotTell, NotPaid, Price, Served, decoded

View = Callable[..., Awaitable[Any]]

LIFETIME = timedelta(minutes=5)
# The ledger's clock is an estimate of its validators.
CLOCK_SKEW_S = 60
# A node may not have yet what another has confirmed.
LOOKS, LOOK_S = 10, 0.5

_SIGNATURE = re.compile(r"[1-9A-HJ-NP-Za-km-z]{64,88}")
_ECHOED = ("realm", "method", "intent", "request", "expires")


class Mpp:
    """Charges for routes by MPP; what is paid arrives in the token account of `pay_to`.

    Args:
        pay_to: owner of the account that receives; its associated account of the mint must exist.
        rpc_url: JSON-RPC of a node that the seller trusts.
        network: `mainnet-beta`, `devnet` or `localnet`.
        secret: 32 random bytes; who knows it makes challenges that were never issued.
        http: asks the node.
    """

    def __init__(
        self,
        *,
        pay_to: str,
        rpc_url: str,
        network: str,
        secret: bytes,
        served: Served,
        http: httpx.AsyncClient,
        realm: str = "paid_api",
    ) -> None:
        self._pay_to = pay_to
        self._rpc_url = rpc_url
        self._network = network
        self._secret = secret
        self._served = served
        self._http = http
        self._realm = realm

    def charges(self, price: Price, description: str = "") -> Callable[[View], View]:
        """Serve a route to who paid `price` for this very request, once for each payment."""

        def decorate(view: View) -> View:
            @functools.wraps(view)
            async def charged(*args: Any, **kwargs: Any) -> Response:
                try:
                    challenge, signature = await self._paid(price)
                except NotPaid as reason:
                    return self._challenge(price, description, str(reason))
                except CannotTell as reason:
                    return _later(str(reason))
                try:
                    answer = await current_app.make_response(await view(*args, **kwargs))
                    assert isinstance(answer, Response)
                except BaseException:
                    self._served.give_back(signature)
                    raise
                if answer.status_code >= 400:
                    # Nothing was sold: the same payment may be shown again.
                    self._served.give_back(signature)
                    return answer
                answer.headers["Payment-Receipt"] = _receipt(challenge, signature)
                answer.headers["Cache-Control"] = "private"
                return answer

            return charged

        return decorate

    def _challenge(self, price: Price, description: str, reason: str) -> Response:
        """402 and a new challenge, which belongs to this very request."""
        # In the transaction's memo: it binds the payment to this challenge and to no other.
        wanted = {
            "amount": str(price.units),
            "currency": price.mint,
            "recipient": self._pay_to,
            "externalId": secrets.token_hex(16),
            "methodDetails": {
                "network": self._network,
                "decimals": price.decimals,
                "tokenProgram": price.token_program,
            },
        }
        if description:
            wanted["description"] = description
        echoed = {
            "realm": self._realm,
            "method": "solana",
            "intent": "charge",
            "request": _encoded(wanted),
            "expires": _rfc3339(datetime.now(UTC) + LIFETIME),
        }
        fields = {"id": self._id(echoed), **echoed}
        answer = jsonify(type="about:blank", title="Payment Required", status=402, detail=reason)
        answer.status_code = 402
        answer.content_type = "application/problem+json"
        answer.headers["WWW-Authenticate"] = "Payment " + ", ".join(
            f'{name}="{value}"' for name, value in fields.items()
        )
        answer.headers["Cache-Control"] = "no-store"
        return answer

    def _id(self, echoed: Mapping[str, str]) -> str:
        """Proves that this seller issued the challenge, and for this request."""
        target = [request.method, request.path, request.query_string.decode("latin-1")]
        text = json.dumps([target, *(echoed[name] for name in _ECHOED)])
        return _base64url(hmac.digest(self._secret, text.encode(), hashlib.sha256))

    async def _paid(self, price: Price) -> tuple[Mapping[str, Any], str]:
        """The challenge that this request answers, and the signature, which is taken now.

        Raises:
            NotPaid: it does not, or what it shows is not its payment.
            CannotTell: the node did not answer.
        """
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "payment":
            raise NotPaid("this request costs money; pay and send it again")
        credential = decoded(token.strip(), "the credential")
        challenge, shown = credential.get("challenge"), credential.get("payload")
        if not isinstance(challenge, dict) or not isinstance(shown, dict):
            raise NotPaid("the credential has no challenge or no payload")
        echoed = {name: challenge.get(name) for name in _ECHOED}
        texts = {name: value for name, value in echoed.items() if isinstance(value, str)}
        issued = texts.keys() == echoed.keys() and hmac.compare_digest(
            self._id(texts).encode(), str(challenge.get("id")).encode()
        )
        if not issued:
            raise NotPaid("the challenge is not one that was issued for this request")
        expires = datetime.fromisoformat(texts["expires"])
        if expires <= datetime.now(UTC):
            raise NotPaid("the challenge has expired")
        wire = shown.get("transaction") if shown.get("type") == "transaction" else None
        signature = shown.get("signature") if wire is None else _signature_of(wire)
        if not isinstance(signature, str) or _SIGNATURE.fullmatch(signature) is None:
            raise NotPaid("the payload has neither a transaction nor the signature of one")
        if self._served.has(signature):
            raise NotPaid("the signature was served already")
        if wire is not None:
            await self._send(wire)
        landed = await self._landed(signature)
        not_before = (expires - LIFETIME).timestamp() - CLOCK_SKEW_S
        check(landed, decoded(texts["request"], "the request"), price.token_program, not_before)
        if not self._served.take(signature):
            raise NotPaid("the signature was served already")
        return challenge, signature

    async def _landed(self, signature: str) -> Mapping[str, Any]:
        """The transaction, once the node has it as confirmed."""
        how = {
            "encoding": "jsonParsed",
            "commitment": "confirmed",
            "maxSupportedTransactionVersion": 0,
        }
        for look in range(LOOKS):
            if look:
                await asyncio.sleep(LOOK_S)
            found = await self._ask("getTransaction", signature, how)
            if "result" not in found:
                raise CannotTell("the ledger cannot be read now")
            if found["result"] is not None:
                landed: Mapping[str, Any] = found["result"]
                return landed
        raise NotPaid("no transaction of this signature is confirmed")

    async def _send(self, wire: str) -> None:
        """Send what the buyer signed; whether it is the payment is checked once it has landed."""
        how = {"encoding": "base64", "preflightCommitment": "confirmed"}
        found = await self._ask("sendTransaction", wire, how)
        # Shown again, it may be there already.
        problem = str(found.get("error", {}).get("message", ""))
        if problem and "already been processed" not in problem:
            raise NotPaid(f"the ledger refuses the transaction: {problem}")

    async def _ask(self, method: str, *params: Any) -> Mapping[str, Any]:
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        try:
            answer = await self._http.post(self._rpc_url, json=asked)
            found = answer.json()
        except (httpx.HTTPError, ValueError):
            raise CannotTell("the ledger cannot be read now") from None
        if not isinstance(found, dict):
            raise CannotTell("the ledger cannot be read now")
        return found


def check(
    landed: Mapping[str, Any], wanted: Mapping[str, Any], token_program: str, not_before: float
) -> None:
    """Check that a transaction of the ledger is the payment that was asked for, whole.

    Args:
        landed: `getTransaction` in `jsonParsed`.
        wanted: the request of the challenge.
        not_before: seconds since the Unix epoch.

    Raises:
        NotPaid: names what is different.
    """
    meta, message = landed["meta"], landed["transaction"]["message"]
    if meta["err"] is not None:
        raise NotPaid("the transaction failed on the ledger")
    if landed["blockTime"] is None or landed["blockTime"] < not_before:
        raise NotPaid("the transaction is older than the challenge")
    steps: Sequence[Mapping[str, Any]] = message["instructions"]
    memos = [step["parsed"] for step in steps if step.get("program") == "spl-memo"]
    if memos != [wanted["externalId"]]:
        raise NotPaid("the memo is not the externalId of the challenge")
    owner, mint = map(Pubkey.from_string, (wanted["recipient"], wanted["currency"]))
    # Of this mint alone: the ledger puts no other token into it.
    account = get_associated_token_address(owner, mint, Pubkey.from_string(token_program))
    paid = [step for step in steps if _goes_to(step, str(account))]
    if len(paid) != 1:
        raise NotPaid("not one transfer, but none or several, goes to the seller's account")
    [step] = paid
    info = step["parsed"]["info"]
    if step["parsed"]["type"] != "transferChecked" or step["programId"] != token_program:
        raise NotPaid("the transfer is not a TransferChecked of the token's program")
    if info["tokenAmount"]["amount"] != wanted["amount"]:
        raise NotPaid("another amount was paid")
    # A program could take it back within the transaction, or keep a fee of it.
    arrived = _units(meta["postTokenBalances"], message, str(account)) - _units(
        meta["preTokenBalances"], message, str(account)
    )
    if arrived != int(wanted["amount"]):
        raise NotPaid("another amount has arrived")


def _signature_of(wire: Any) -> str:
    """The signature that the ledger knows a transaction by."""
    try:
        transaction = VersionedTransaction.from_bytes(base64.b64decode(wire, validate=True))
        return str(transaction.signatures[0])
    except (TypeError, ValueError, IndexError):
        raise NotPaid("the transaction cannot be read") from None


def _goes_to(step: Mapping[str, Any], account: str) -> bool:
    parsed = step.get("parsed")
    if not isinstance(parsed, dict):
        return False
    info = parsed.get("info")
    return isinstance(info, dict) and info.get("destination") == account


def _units(balances: Sequence[Mapping[str, Any]], message: Mapping[str, Any], account: str) -> int:
    """What a token account held before or after; 0 where there was none."""
    keys = [key["pubkey"] for key in message["accountKeys"]]
    held = {keys[each["accountIndex"]]: each["uiTokenAmount"]["amount"] for each in balances}
    return int(held.get(account, "0"))


def _later(reason: str) -> Response:
    """Nothing is taken: the same payment is shown again later."""
    answer = jsonify(title="Service Unavailable", status=503, detail=reason)
    answer.status_code = 503
    answer.headers["Retry-After"] = "5"
    return answer


def _receipt(challenge: Mapping[str, Any], signature: str) -> str:
    return _encoded(
        {
            "status": "success",
            "method": "solana",
            "reference": signature,
            "timestamp": _rfc3339(datetime.now(UTC)),
            "challengeId": challenge["id"],
        }
    )


def _encoded(value: Mapping[str, Any]) -> str:
    return _base64url(json.dumps(value, separators=(",", ":"), sort_keys=True).encode())


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
