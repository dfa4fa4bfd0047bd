"""The approvals' webhook sends a receiver all events of holds, and accepts its signed decisions.
`HoldSender` is what it shares with the chats of `solward.notify.chats`.

A receiver gets each event at least once, and a hold's newest event last
(`solward.notify.deliveries`).
"""

from __future__ import annotations

import time
import uuid
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit import alerts
from solward.audit.acts import act_as, record_act
from solward.database.database import Database, clock
from solward.notify import deliveries as store
from solward.notify.deliveries import DeliveryClaim, Pace, Sender, signed_request
from solward.operations.approvals import WEBHOOK, Approvals
from solward.resources.declare import fields_of
from solward.resources.holds import SignedHoldDecision
from solward.settings import Settings
from solward.support import jsontext
from solward.support.webhook_signature import (
    WINDOW_S,
    decision_signature,
    is_hold_id,
    is_nonce,
    is_signature,
    seconds_of,
)
from solward.telemetry import metrics
from solward.types.errors import DecisionRefused, InvalidRequest, refuse_unknown
from solward.types.events import EventKind
from solward.types.record import Hold

REFUSALS: Final = {
    "signature": "The decision is not signed for this hold with the webhook's secret",
    "time": f"The decision was signed more than {WINDOW_S} s from now, by the service's clock",
    "repeated": "This decision was already received: sign a new one",
}
"""The text of the answer to a refused decision, by reason."""

# Events whose names begin with this are sent.
_KIND = "hold"
# The maximum number of refused decisions that a process records in the audit log per minute. The
# next record counts the others, so that a sender without the secret cannot fill the database.
_REFUSALS_A_MINUTE = 10


@dataclass(frozen=True, slots=True)
class SentDecision:
    """A request that decides a hold: the id in its path, three headers and its body."""

    hold_id: str
    timestamp: str
    nonce: str
    signature: str
    body: bytes


class HoldSender(Sender):
    """A sender of all events of holds to the receiver that a setting names."""

    setting = "APPROVAL_WEBHOOK_URL"

    @abstractmethod
    def _details(self, hold: Any) -> dict[str, Any]:
        """Return the fields of a delivery's body besides `event`, `by` and `hold`."""

    def _wants_event(self, event: str, data: Any) -> bool:
        return event.partition(":")[0] == _KIND

    def _give_up(self, connection: AsyncConnection, claimed: DeliveryClaim, failure: str) -> None:
        hold = jsontext.loads(claimed.body)["hold"]
        alerts.raise_alert(
            connection,
            alerts.Alert.WEBHOOK_GIVEN_UP,
            hold,
            setting=self.setting,
            hold=hold["id"],
            tries=claimed.tries,
            failure=failure,
        )

    async def _store(self, connection: AsyncConnection, events: Sequence[tuple[str, Any]]) -> None:
        for event, data in events:
            # In an event, `principal` is the principal that acted; in a hold, it is the requester.
            hold = {name: value for name, value in data.items() if name != "asked"}
            hold |= {"principal": data["asked"]}
            body = {"event": event, "by": data["principal"], "hold": hold}
            text = jsontext.dumps(body | self._details(hold))
            await store.add(connection, self.channel, str(uuid.uuid4()), str(data["id"]), text)


class Webhook(HoldSender):
    """The sender of holds to the approvals' webhook, and the checker of its signed decisions."""

    channel = "approvals"

    def __init__(
        self, database: Database, url: str, secret: str, *, dashboard: str, api: str, pace: Pace
    ) -> None:
        super().__init__(database, pace)
        self._url = url
        self._secret = secret
        self._dashboard = dashboard
        self._api = api
        self._refusals: deque[float] = deque()
        self._unwritten = 0

    @classmethod
    def from_settings(
        cls, database: Database, settings: Settings, pace: Pace | None = None
    ) -> Webhook | None:
        """Return the webhook that the settings configure; None if they configure none.

        Raises:
            ConfigError: a setting is missing, such as the service's own address.
        """
        configured = settings.approval_webhook
        if configured is None:
            return None
        return cls(
            database,
            *configured,
            dashboard=settings.dashboard_address,
            api=settings.client_url,
            pace=pace or Pace(),
        )

    async def decide(self, approvals: Approvals, sent: SentDecision) -> Hold:
        """Decide a hold as the webhook's receiver requests, and return the hold.

        Raises:
            DecisionRefused: see `check`.
            InvalidRequest: the signed body is not a decision; names the wrong field.
            SolwardError: `approvals` refuses the decision.
        """
        await self.check(sent)
        act_as(WEBHOOK)
        said = _read_decision(sent.body)
        decides = approvals.approve if said.decision == "approve" else approvals.deny
        return await decides(sent.hold_id, WEBHOOK, said.note)

    async def check(self, sent: SentDecision) -> None:
        """Check a decision's signature, and accept it at most once.

        Raises:
            DecisionRefused: it was not signed with the secret for this hold, or not within
                `WINDOW_S` of the database's clock, or it was sent before. The audit log records the
                refusal without the body.
        """
        refused = await self._refusal_reason(sent)
        if refused is None:
            metrics.WEBHOOK_DECISIONS.labels("accepted").inc()
            return
        metrics.WEBHOOK_DECISIONS.labels("refused").inc()
        await self._record_refusal(sent.hold_id, refused)
        raise DecisionRefused(REFUSALS[refused])

    async def _refusal_reason(self, sent: SentDecision) -> str | None:
        seconds = seconds_of(sent.timestamp)
        # A sender without the secret learns no more than this, and causes no query.
        if seconds is None or not is_nonce(sent.nonce) or not is_hold_id(sent.hold_id):
            return "signature"
        expected = decision_signature(
            self._secret, sent.hold_id, sent.timestamp, sent.nonce, sent.body
        )
        if not is_signature(sent.signature, expected):
            return "signature"
        async with self._database.write() as connection:
            if abs(await clock(connection) - seconds * 1000) > WINDOW_S * 1000:
                return "time"
            return None if await store.take_nonce(connection, sent.nonce) else "repeated"

    async def _record_refusal(self, hold_id: str, reason: str) -> None:
        now = time.monotonic()
        while self._refusals and self._refusals[0] <= now - 60:
            self._refusals.popleft()
        if len(self._refusals) >= _REFUSALS_A_MINUTE:
            self._unwritten += 1
            return
        self._refusals.append(now)
        unwritten, self._unwritten = self._unwritten, 0
        # The sender is not known, so the path's id is recorded only if it has the form of an id.
        subject = {
            "holdId": hold_id if is_hold_id(hold_id) else None,
            "reason": reason,
            "unwritten": unwritten,
        }
        async with self._database.write() as connection:
            record_act(connection, EventKind.WEBHOOK_REFUSED, subject)

    async def _request(self, claimed: DeliveryClaim) -> httpx.Request:
        return signed_request(self._url, self._secret, claimed)

    def _details(self, hold: Any) -> dict[str, Any]:
        return {
            "dashboardUrl": f"{self._dashboard}/holds/{hold['id']}",
            "decisionUrl": f"{self._api}/api/v1/holds/{hold['id']}/webhook",
        }


def _read_decision(body: bytes) -> SignedHoldDecision:
    try:
        fields = jsontext.read(body)
    except jsontext.UnfitValue as error:
        raise InvalidRequest(str(error)) from None
    except ValueError as error:
        said = f"The request body must be valid JSON without repeated fields: {error}"
        raise InvalidRequest(said) from None
    fields = fields if isinstance(fields, dict) else {}
    refuse_unknown(fields, [each.json for each in fields_of(SignedHoldDecision)])
    return SignedHoldDecision.of(fields)
