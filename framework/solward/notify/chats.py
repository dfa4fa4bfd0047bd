"""Messages about holds to a channel of Slack and to a chat of Telegram.

A message says what would leave and to whom, who asks, and until when a person can decide. It links
to the hold's page, behind the dashboard's login, and decides nothing. All texts but Solward's own
are code, in which neither service makes a link, a mention or a format.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, Final, TypeAlias

import httpx
import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from solward.audit.acts import SERVICE
from solward.database.database import Database
from solward.database.names import address_book_rows, names_of_kind, wallets_like
from solward.notify.alerts import safe_text, slack_plain
from solward.notify.deliveries import Channel, DeliveryClaim, Failure, Pace
from solward.notify.webhook import HoldSender
from solward.settings import Settings
from solward.solana.token_list import TokenList
from solward.support import jsontext
from solward.types.address_book import AddressBook
from solward.types.events import EventKind
from solward.types.guardrail import SOL
from solward.types.money import amount_text, format_sol
from solward.vault.store.holds import by_transaction

_HEADINGS: Final[Mapping[str, str]] = {
    EventKind.HOLD_CREATED: "A transaction waits for a person",
    EventKind.HOLD_APPROVED: "A held transaction was approved",
    EventKind.HOLD_EXECUTED: "A held transaction was approved, and is being sent",
    EventKind.HOLD_REFUSED: "A held transaction was approved, but its new check refused it",
    EventKind.HOLD_DENIED: "A held transaction was denied: nothing was sent",
    EventKind.HOLD_EXPIRED: "A held transaction expired: nothing was sent",
    EventKind.TRANSACTION_CONFIRMED: "A held transaction was approved, and is confirmed",
    EventKind.TRANSACTION_FAILED: "A held transaction was approved, and failed",
}
_ENDS: Final = (EventKind.TRANSACTION_CONFIRMED, EventKind.TRANSACTION_FAILED)
_log = structlog.get_logger(__name__)

# Telegram's limit on a message; Slack's is 40,000. The sentence gets what all else leaves.
_MOST_TEXT: Final = 4_096
_MOST_LEAVES: Final = 2_400
_MOST_ANSWER: Final = 64 << 10
_MOST_NAME: Final = 60
_ASKERS: Final = ("agent", "key", "schedule")
# A label, and a text that others may have written, for each line of a message.
Rows: TypeAlias = Sequence[tuple[str, str]]
# Errors of Slack, and of Telegram, that a later try would get too.
_FINAL: Final = re.compile(
    "account_inactive|channel_not_found|invalid_auth|is_archived|missing_scope|no_permission"
    "|not_authed|not_in_channel|restricted_action|token_expired|token_revoked|40[0134]"
)


@dataclass(frozen=True, slots=True)
class SlackChannel:
    """A channel of Slack with the id `to`, and the token of a bot."""

    channel: ClassVar[Channel] = "slack"
    setting: ClassVar = "APPROVAL_SLACK_CHANNEL"
    token: str = field(repr=False)
    to: str
    origin: str = "https://slack.com"

    def check(self) -> httpx.Request:
        """Return a request that checks the token."""
        return self._call("auth.test", {})

    def send(self, heading: str, rows: Rows, link: str) -> httpx.Request:
        """Return the request that sends a message."""
        texts = [f"{label}`{slack_plain(text)}`" for label, text in rows]
        text = "\n".join([f"*{heading}*", *texts, f"<{slack_plain(link)}>" if link else ""])
        plain = {"parse": "none", "link_names": False, "unfurl_links": False, "unfurl_media": False}
        return self._call("chat.postMessage", {"channel": self.to, "text": text} | plain)

    def _call(self, method: str, fields: dict[str, Any]) -> httpx.Request:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Request("POST", f"{self.origin}/api/{method}", json=fields, headers=headers)


@dataclass(frozen=True, slots=True)
class TelegramChat:
    """A chat, group or channel of Telegram with the id `to`, and the token of a bot."""

    channel: ClassVar[Channel] = "telegram"
    setting: ClassVar = "APPROVAL_TELEGRAM_CHAT"
    token: str = field(repr=False)
    to: str
    origin: str = "https://api.telegram.org"

    def check(self) -> httpx.Request:
        """Return a request that checks the token, and that the bot finds the chat."""
        return self._call("getChat", {})

    def send(self, heading: str, rows: Rows, link: str) -> httpx.Request:
        """Return the request that sends a message."""
        text, entities = heading, []
        for label, code in rows:
            text += f"\n{label}"
            entities.append({"type": "code", "offset": _size(text), "length": _size(code)})
            text += code
        plain = {"entities": entities, "link_preview_options": {"is_disabled": True}}
        return self._call("sendMessage", {"text": f"{text}\n{link}".rstrip()} | plain)

    def _call(self, method: str, fields: dict[str, Any]) -> httpx.Request:
        url = f"{self.origin}/bot{self.token}/{method}"
        return httpx.Request("POST", url, json={"chat_id": self.to} | fields)


Chat: TypeAlias = SlackChannel | TelegramChat


def chats_of(settings: Settings) -> list[Chat]:
    """Return the chats that the settings name; raises `ConfigError` if a setting is missing."""
    kinds: dict[str, type[Chat]] = {"slack": SlackChannel, "telegram": TelegramChat}
    return [kinds[name](*given) for name, given in settings.approval_chats.items()]


async def read_answer(response: httpx.Response) -> Failure | None:
    """Return why a service did not do what was asked; None if it did. Slack reports failures with
    status 200 too, so only the field `ok` counts."""
    try:
        answer = jsontext.loads(await _read_start(response))
        if answer["ok"] is True:
            return None
        error = str(answer.get("error", answer.get("error_code")))
        asked = answer.get("parameters", {}).get("retry_after", response.headers.get("Retry-After"))
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return Failure(f"HTTP {response.status_code}")
    wait_s = int(asked) if re.fullmatch("[0-9]{1,5}", str(asked)) else 0
    text = f"HTTP {response.status_code}: {safe_text(str(answer.get('description', error)))}"
    return Failure(text, wait_s, _FINAL.fullmatch(error) is not None)


async def _read_start(response: httpx.Response) -> bytes:
    """Return the answer's first `_MOST_ANSWER` bytes; the services' own answers are shorter."""
    body = b""
    async for part in response.aiter_bytes():
        body += part
        if len(body) > _MOST_ANSWER:
            break
    return body[:_MOST_ANSWER]


class HoldMessages(HoldSender):
    """The sender of messages about holds, and about the ends of their payments, to one chat."""

    _read_failure = staticmethod(read_answer)

    def __init__(
        self, database: Database, chat: Chat, tokens: TokenList, dashboard: str, pace: Pace
    ) -> None:
        super().__init__(database, pace)
        self.channel, self.setting = chat.channel, chat.setting
        self._chat = chat
        self._tokens, self._dashboard = tokens, dashboard

    async def _request(self, claimed: DeliveryClaim) -> httpx.Request:
        told = jsontext.loads(claimed.body)
        told |= {"asker": told["hold"]["principal"], "names": {}}
        try:
            told |= await self._names(told["hold"])
        except Exception:
            # A person must hear of the hold, if only by addresses and ids.
            _log.exception("names_unread", webhook=self.channel, delivery=claimed.id)
        return self._chat.send(*hold_message(told, self._tokens, self._dashboard))

    def _wants_event(self, event: str, data: Any) -> bool:
        return event in _ENDS or super()._wants_event(event, data)

    async def _store(self, connection: AsyncConnection, events: Sequence[tuple[str, Any]]) -> None:
        told = []
        for event, data in events:
            if event not in _ENDS:
                told.append((event, data))
            elif (row := await by_transaction(connection, data["id"])) is not None:
                hold = row.hold.to_json() | {"error": data.get("error")}
                told.append((event, hold | {"asked": row.hold.principal, "principal": SERVICE}))
        await super()._store(connection, told)

    def _details(self, hold: Any) -> dict[str, Any]:
        return {}

    async def _names(self, hold: Any) -> dict[str, Any]:
        """Return the names of the asker and the recipients, read outside the writer."""
        ends = {line[end] for line in hold["lines"] for end in ("account", "owner") if end in line}
        kind, _, own_id = hold["principal"].partition(":")
        async with self._database.read() as connection:
            contacts = await address_book_rows(connection)
            book = AddressBook.from_lists(await wallets_like(connection, ends), contacts)
            found = await names_of_kind(connection, kind, [own_id]) if kind in _ASKERS else {}
        asker = f"{kind} {found[own_id]}" if found else hold["principal"]
        return {"asker": asker, "names": {each: book.label(each) for each in ends}}


def hold_message(
    told: Mapping[str, Any], tokens: TokenList, dashboard: str
) -> tuple[str, Rows, str]:
    """Return the heading, rows and link of the message about an event of a hold; `dashboard` is
    the dashboard's address, or empty. No amount and no address in it is cut."""
    event, hold = told["event"], told["hold"]
    link = f"{dashboard}/holds/{hold['id']}" if dashboard else ""
    waits = event == EventKind.HOLD_CREATED
    until = f"{hold['expiresAt'][:10]} {hold['expiresAt'][11:16]} UTC"
    rows = [
        *_leaves_rows(hold["lines"], told["names"], tokens),
        ("Costs: at most ", f"{format_sol(int(hold['costsLamports']))} SOL"),
        ("Asked by: ", safe_text(told["asker"], _MOST_NAME)),
        ("Decide until: ", until if waits else ""),
        ("Decided by: ", safe_text(hold.get("decidedBy") or "", _MOST_NAME)),
        ("Note: ", safe_text(hold.get("note") or "", 200)),
        ("Error: ", safe_text(hold.get("error") or "", 200)),
        ("", "" if link else f"solward hold show {hold['id']}"),
        ("", "" if link or not waits else f"solward hold approve {hold['id']}"),
    ]
    taken = _size("".join([_HEADINGS[event], link, *map("\n".join, rows)]))
    # A character beyond 16 bits counts twice.
    room = (_MOST_TEXT - taken) // (2 if max(hold["sentence"], default="") > "\uffff" else 1)
    rows.insert(0, ("", safe_text(hold["sentence"], max(1, room - 8))))
    return _HEADINGS[event], [row for row in rows if row[1]], link


def _leaves_rows(
    lines: Sequence[Mapping[str, Any]], names: Mapping[str, str | None], tokens: TokenList
) -> Iterator[tuple[str, str]]:
    """Yield a row for each amount with its mint and its recipient's whole address, and one for the
    recipient's name. SOL comes first, then listed tokens, each with the largest amount first."""
    room = _MOST_LEAVES

    def order(line: Mapping[str, Any]) -> tuple[bool, bool, Fraction]:
        size = Fraction(int(line["units"]), 10 ** int(line.get("decimals") or 0))
        return line["asset"] != SOL, tokens.symbol_of(line["asset"]) is None, -size

    for number, line in enumerate(sorted(lines, key=order)):
        units, asset, decimals = int(line["units"]), line["asset"], line.get("decimals")
        if asset == SOL:
            text = f"{format_sol(units)} SOL"
        elif decimals is None:
            text = f"{units} units of the mint {asset}"
        else:
            symbol = tokens.symbol_of(asset) or "tokens"
            text = f"{amount_text(units, int(decimals))} {symbol} of the mint {asset}"
        account = line.get("account")
        receiver = line.get("owner") or account
        name = safe_text(names.get(receiver) or "", _MOST_NAME) if receiver is not None else ""
        if receiver is not None:
            text += f" to {receiver}"
        if account != receiver:
            text += f", in its token account {account}"
        room -= _size(text + name)
        if room < 0:
            yield "", f"and {len(lines) - number} more amounts: read the whole hold"
            return
        yield "Leaves: ", text
        if name:
            yield "Named: ", name


def _size(text: str) -> int:
    """Return the length in units of UTF-16, as Telegram counts."""
    return len(text.encode("utf-16-le")) // 2
