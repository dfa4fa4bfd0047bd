"""Records of the service that a command line names; the command gets the record itself."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from solward_cli.render import visible

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from solward.client import Contact, Hold, Payment, Skill, SolwardClient, Transaction
    from solward.types.address_book import NamedAddress

F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R", "Hold", "Payment", "Transaction")

Find = Callable[["SolwardClient", str, Mapping[str, Any]], Awaitable[Any]]

# What a shell may complete: a name, a text about it, and its id, if it has one.
OfferedName = tuple[str, str, str | None]
Offer = Callable[["SolwardClient"], Awaitable[list[OfferedName]]]

# Completion offers nothing after this time, because the user waits for the shell.
TIMEOUT_S = 1.0
# Names that every shell reads as one plain word, even within quotes, backticks or braces. A leading
# hyphen would begin an option. Keys, agents and plugins choose names, and a shell runs the line.
_SAFE = re.compile(r"[0-9A-Za-z\x80-\U0010ffff][-0-9A-Za-z\x80-\U0010ffff_.]*")
_ID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PAGE: Final = 500
_MOST_PAGES: Final = 20


@dataclass(frozen=True, slots=True)
class Lookup:
    """A record as the command line names it, to be found by a client of the service.

    Attributes:
        text: what was typed.
        find: takes the client, the text, and the records that were named before it.
    """

    text: str
    find: Find


class RecordName(click.ParamType):  # type: ignore[type-arg]  # Generic from click 8.3 on.
    """The type of an argument that names a record by its name, its id or the beginning of its id.

    A shell completes it with what `offer` reads from the service; if that fails, with nothing.
    """

    name = "text"

    def __init__(self, find: Find, offer: Offer | None = None) -> None:
        self._find = find
        self._offer = offer

    def convert(
        self, value: Any, _param: click.Parameter | None, _context: click.Context | None
    ) -> Lookup:
        """See `click.ParamType.convert`."""
        return value if isinstance(value, Lookup) else Lookup(value, self._find)

    def shell_complete(
        self, ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """See `click.ParamType.shell_complete`."""
        from click.shell_completion import CompletionItem

        found: list[OfferedName] = []
        with contextlib.suppress(Exception):
            found = asyncio.run(self._read_offers(ctx.params.get("url")))
        return [
            CompletionItem(word, help=visible(text if word == name else name))
            for name, text, id_ in found
            if name.startswith(incomplete)
            # The id replaces a name that a shell could interpret.
            and (word := name if name.isprintable() and _SAFE.fullmatch(name) else id_)
        ]

    async def _read_offers(self, url: str | None) -> list[OfferedName]:
        from solward.client import SolwardClient
        from solward.settings import Settings

        settings = Settings()
        address = url or settings.client_target[0]
        async with (
            SolwardClient(address, settings.client_token) as client,
            asyncio.timeout(TIMEOUT_S),
        ):
            return [] if self._offer is None else await self._offer(client)


async def find_recipient(client: SolwardClient, text: str, _: Mapping[str, Any]) -> NamedAddress:
    """Find a recipient by its address, by a contact's name, which only an admin may use, or by a
    wallet's name, id or beginning of the id."""
    from solward.client import Unauthorized
    from solward.client.wallets import ADDRESS, MIN_ID_PREFIX
    from solward.types.address_book import AddressBook, KnownAddress

    if ADDRESS.fullmatch(text):
        return KnownAddress(text, text)
    try:
        known: list[NamedAddress] = [*await client.contacts.list()]
    except Unauthorized:
        # Only an admin may read contacts; a key can name the wallets that it sees.
        found = await client.wallets.find(text)
        return KnownAddress(found.address, found.name)
    wallets = await client.wallets.list()
    if len(text) >= MIN_ID_PREFIX:
        begun = (each for each in wallets if each.id.startswith(text))
        known += [KnownAddress(each.address, text) for each in begun]
    address = AddressBook.from_lists(wallets, known).address(text, f"TO {text!r}")
    own = {each.address: each.name for each in wallets}
    return KnownAddress(address, own.get(address, text))


async def _find_wallet_id(client: SolwardClient, text: str, _: Mapping[str, Any]) -> str:
    return (await client.wallets.find(text)).id


async def _find_agent_id(client: SolwardClient, text: str, _: Mapping[str, Any]) -> str:
    # A deleted agent is known only by its id.
    return text if _ID.fullmatch(text) else (await client.agents.find(text)).id


def _name_finder(
    kind: str, read: Callable[[SolwardClient, Mapping[str, Any]], Awaitable[Sequence[Any]]]
) -> Find:
    """Return a function that finds a record by name or id among those that `read` returns."""

    async def find(client: SolwardClient, text: str, named: Mapping[str, Any]) -> Any:
        from solward.client.wallets import find_one

        found = await read(client, named)
        return find_one(kind, text, found, maker=lambda each: getattr(each, "made_by", None))

    return find


_find_key = _name_finder("key", lambda client, _: client.keys.list())


async def _find_principal(client: SolwardClient, who: str, named: Mapping[str, Any]) -> str:
    """Return a principal by its id, as in the audit log. A deleted principal has no name."""
    kind, _, name = who.partition(":")
    if kind == "agent":
        return f"agent:{await _find_agent_id(client, name, named)}"
    if kind == "key" and not _ID.fullmatch(name):
        return f"key:{(await _find_key(client, name, named)).id}"
    return who


async def _find_hold(client: SolwardClient, text: str, _: Mapping[str, Any]) -> Hold:
    """Find a hold by its id, or an open or recent hold by the beginning of its id."""
    from solward.client import NotFoundError

    try:
        return await client.holds.get(text)
    except NotFoundError:
        pages = [await client.holds.list(is_open=each, limit=_PAGE) for each in (True, None)]
    return _find_by_prefix("hold", text, [each for page in pages for each in page])


async def _find_payment(client: SolwardClient, text: str, _: Mapping[str, Any]) -> Payment:
    """Find a payment by its id, or a recent payment by the beginning of its id."""
    from solward.client import NotFoundError

    try:
        return (await client.payments.get(text)).payment
    except NotFoundError:
        return _find_by_prefix("payment", text, await client.payments.list(limit=_PAGE))


async def find_transaction(client: SolwardClient, text: str, _: Mapping[str, Any]) -> Transaction:
    """Find one of the latest 10,000 transactions by its id, its id's beginning or its signature."""
    found: list[Transaction] = []
    for _page in range(_MOST_PAGES):
        page = await client.transactions.list(_PAGE, found[-1].id if found else None)
        found += page
        if len(page) < _PAGE or any(_matches_text(each, text) for each in page):
            break
    return _find_by_prefix("transaction", text, found)


def _find_by_prefix(kind: str, text: str, among: Iterable[R]) -> R:
    """Return the only record whose id begins with `text` or whose signature is `text`.

    Raises:
        NotFoundError, AmbiguousName.
    """
    from solward.client import AmbiguousName, NotFoundError

    fits = {each.id: each for each in among if _matches_text(each, text)}
    if not fits:
        raise NotFoundError(404, f"No {kind} has the id {text!r}")
    if len(fits) > 1:
        raise AmbiguousName(f"{len(fits)} {kind} ids begin with {text!r}; give a longer one")
    return fits.popitem()[1]


def _matches_text(record: Hold | Payment | Transaction, text: str) -> bool:
    from solward.client.wallets import MIN_ID_PREFIX

    begins = len(text) >= MIN_ID_PREFIX and record.id.startswith(text)
    return begins or text == getattr(record, "signature", None)


async def _find_contact(client: SolwardClient, text: str, _: Mapping[str, Any]) -> Contact:
    from solward.client import NotFoundError

    for each in await client.contacts.list():
        if text in (each.name, each.address) and each.created_at is not None:
            return each
    raise NotFoundError(404, f"No contact has the name or the address {text!r}")


async def _find_skill(client: SolwardClient, text: str, _: Mapping[str, Any]) -> Skill:
    from solward.client import NotFoundError

    skills = {each.name: each for each in await client.skills()}
    if text not in skills:
        raise NotFoundError(404, f"No skill named {text!r}; known: {', '.join(skills)}")
    return skills[text]


async def _offer_wallets(client: SolwardClient) -> list[OfferedName]:
    return [(each.name, each.address, each.id) for each in await client.wallets.list()]


async def _offer_agents(client: SolwardClient) -> list[OfferedName]:
    return [(each.name, each.status, each.id) for each in await client.agents.list()]


async def _offer_skills(client: SolwardClient) -> list[OfferedName]:
    return [(each.name, each.description, None) for each in await client.skills()]


WALLET: Final = RecordName(lambda client, text, _: client.wallets.find(text), _offer_wallets)
WALLET_ID: Final = RecordName(_find_wallet_id, _offer_wallets)
AGENT_ID: Final = RecordName(_find_agent_id, _offer_agents)
TRANSACTION: Final = RecordName(find_transaction)
RECIPIENT: Final = RecordName(find_recipient, _offer_wallets)
SKILL: Final = RecordName(_find_skill, _offer_skills)
PRINCIPAL: Final = RecordName(_find_principal)

BY_NAME: Final = {
    "admin": RecordName(_name_finder("admin credential", lambda client, _: client.admins.list())),
    "agent": RecordName(lambda client, text, _: client.agents.find(text), _offer_agents),
    "contact": RecordName(_find_contact),
    "hold": RecordName(_find_hold),
    "key": RecordName(_find_key),
    "payment": RecordName(_find_payment),
    "schedule": RecordName(
        _name_finder("schedule", lambda client, named: client.schedules.list(named["wallet"].id))
    ),
    "wallet": WALLET,
}
"""The types of arguments that name records, by the argument's name."""


def argument(name: str) -> Callable[[F], F]:
    """Return a decorator that adds an argument which names a record of this kind."""
    return click.argument(name, type=BY_NAME[name])
