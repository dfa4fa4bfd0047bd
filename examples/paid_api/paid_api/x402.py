"""x402, versions 2 and 1: scheme `exact` on Solana, settled by a facilitator.

The facilitator checks what the buyer signed, pays the network fee and sends it; the seller needs no
key and no node, and trusts the facilitator's word that it has settled.
"""

from __future__ import annotations

import base64
import functools
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx
from quart import Response, current_app, jsonify, request

from .charging import CannotTell, NotPaid, Price, Served, decoded

View = Callable[..., Awaitable[Any]]

MAX_TIMEOUT_S = 60
# A facilitator waits for the ledger before it answers.
SETTLE_TIMEOUT_S = 90.0
# Version 2's name of a network -> version 1's.
NETWORKS = {
    "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp": "solana",
    "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1": "solana-devnet",
    "solana:4uhcVJyU9pJkvQyS88uRDiswHXSCkY3z": "solana-testnet",
}
# Version -> the headers by which a buyer pays, and by which the seller answers.
_HEADERS = {2: ("PAYMENT-SIGNATURE", "PAYMENT-RESPONSE"), 1: ("X-PAYMENT", "X-PAYMENT-RESPONSE")}


class X402:
    """Charges for routes by x402; what is paid arrives in the token account of `pay_to`.

    Args:
        pay_to: owner of the account that receives; its associated account of the mint must exist.
        facilitator_url: has `/supported`, `/verify` and `/settle`.
        network: one of `NETWORKS`.
        http: asks the facilitator.
    """

    def __init__(
        self,
        *,
        pay_to: str,
        facilitator_url: str,
        network: str,
        served: Served,
        http: httpx.AsyncClient,
    ) -> None:
        self._pay_to = pay_to
        self._facilitator = facilitator_url.rstrip("/")
        self._network = network
        self._served = served
        self._http = http
        self._fee_payers: Mapping[int, str] = {}

    def charges(self, price: Price, description: str = "") -> Callable[[View], View]:
        """Serve a route to who paid `price`, once for each payment.

        The route runs before the payment is settled: one that fails costs the buyer nothing, and
        its answer is sent only when the payment has settled.
        """

        def decorate(view: View) -> View:
            @functools.wraps(view)
            async def charged(*args: Any, **kwargs: Any) -> Response:
                try:
                    offers = await self._offers(price, description)
                    try:
                        version, payload = self._shown(offers)
                        await self._verify(version, payload, offers[version])
                    except NotPaid as reason:
                        return _payment_required(offers, description, str(reason))
                    answer = await current_app.make_response(await view(*args, **kwargs))
                    assert isinstance(answer, Response)
                    if answer.status_code >= 400:
                        return answer
                    settled = await self._ask("/settle", version, payload, offers[version])
                except CannotTell as reason:
                    later = jsonify(error=str(reason))
                    later.status_code = 503
                    return later
                signature = settled.get("transaction")
                if settled.get("success") is not True or not isinstance(signature, str):
                    why = str(settled.get("errorReason") or "the payment did not settle")
                    answer = _payment_required(offers, description, why)
                elif not self._served.take(signature):
                    why = "the signature was served already"
                    answer = _payment_required(offers, description, why)
                answer.headers[_HEADERS[version][1]] = _encoded(settled)
                answer.headers["Cache-Control"] = "private"
                return answer

            return charged

        return decorate

    async def _offers(self, price: Price, description: str) -> Mapping[int, Mapping[str, Any]]:
        """Version -> what this route takes, as that version says it."""
        if not self._fee_payers:
            self._fee_payers = await self._supported()
        shared = {
            "scheme": "exact",
            "asset": price.mint,
            "payTo": self._pay_to,
            "maxTimeoutSeconds": MAX_TIMEOUT_S,
        }
        units = str(price.units)
        resource = {"resource": request.base_url, "description": description, "mimeType": ""}
        own = {
            2: {"network": self._network, "amount": units},
            1: {"network": NETWORKS[self._network], "maxAmountRequired": units, **resource},
        }
        return {
            version: {**shared, **own[version], "extra": {"feePayer": fee_payer}}
            for version, fee_payer in self._fee_payers.items()
        }

    async def _supported(self) -> Mapping[int, str]:
        """Version -> who pays the fee, as the facilitator says."""
        networks = {2: self._network, 1: NETWORKS[self._network]}
        found: dict[int, str] = {}
        for kind in (await self._json("GET", "/supported")).get("kinds", []):
            version = kind.get("x402Version")
            ours = kind.get("scheme") == "exact" and kind.get("network") == networks.get(version)
            if ours and "feePayer" in (kind.get("extra") or {}):
                found[version] = kind["extra"]["feePayer"]
        if not found:
            raise CannotTell(f"the facilitator does not settle on {self._network}")
        return found

    def _shown(self, offers: Mapping[int, Mapping[str, Any]]) -> tuple[int, Mapping[str, Any]]:
        """The version and the payment of this request.

        Raises:
            NotPaid: it has none, or one for something else.
        """
        for version, (name, _) in _HEADERS.items():
            if name in request.headers and version in offers:
                payload = decoded(request.headers[name], name)
                offer = offers[version]
                if payload.get("x402Version") != version:
                    raise NotPaid(f"{name} is of another version than {version}")
                if version == 2:
                    matches = payload.get("accepted") == offer
                else:
                    matches = all(payload.get(key) == offer[key] for key in ("scheme", "network"))
                if not matches:
                    raise NotPaid("the payment is for something else than this route asks")
                return version, payload
        raise NotPaid("this request costs money; pay and send it again")

    async def _verify(
        self, version: int, payload: Mapping[str, Any], offer: Mapping[str, Any]
    ) -> None:
        verdict = await self._ask("/verify", version, payload, offer)
        if verdict.get("isValid") is not True:
            raise NotPaid(str(verdict.get("invalidReason") or "the payment is not valid"))

    async def _ask(
        self, path: str, version: int, payload: Mapping[str, Any], offer: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        body = {"x402Version": version, "paymentPayload": payload, "paymentRequirements": offer}
        return await self._json("POST", path, json=body, timeout=SETTLE_TIMEOUT_S)

    async def _json(self, method: str, path: str, **more: Any) -> Mapping[str, Any]:
        try:
            answer = await self._http.request(method, self._facilitator + path, **more)
            answer.raise_for_status()
            found = answer.json()
        except (httpx.HTTPError, ValueError):
            raise CannotTell("the facilitator cannot be asked now") from None
        if not isinstance(found, dict):
            raise CannotTell("the facilitator's answer cannot be read")
        return found


def _payment_required(
    offers: Mapping[int, Mapping[str, Any]], description: str, reason: str
) -> Response:
    """402: version 2 in its header, version 1 in the body."""
    first = [offers[1]] if 1 in offers else []
    answer = jsonify(x402Version=1, error=reason, accepts=first)
    answer.status_code = 402
    if 2 in offers:
        required = {
            "x402Version": 2,
            "error": reason,
            "resource": {"url": request.base_url, "description": description},
            "accepts": [offers[2]],
        }
        answer.headers["PAYMENT-REQUIRED"] = _encoded(required)
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _encoded(value: Mapping[str, Any]) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()
