"""`solward policy`: grants; `solward contacts`: names of recipients; `solward freeze`, `frozen` and
`unfreeze`: the switch that stops every new transaction."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from solward.resources.declare import declared_fields
from solward.resources.grant_form import SUBJECTS, GrantForm
from solward.resources.policy import (
    DRAFT_DAYS,
    DRAFT_NEWEST,
    GET_POLICY,
    LIST_CONTACTS,
    PUT_CONTACT,
    REMOVE_CONTACT,
    SHOWN_CHANGES,
    ReplayRequest,
)
from solward.resources.service import FREEZE, LIST_FROZEN, UNFREEZE, Frozen, Switch
from solward.support import jsontext
from solward.types.errors import SolwardError
from solward_cli.declared import asks, lists, request_options
from solward_cli.entrypoint import yes_option
from solward_cli.render import Output, answer_table, moment, plain, table, together, visible
from solward_cli.render import show as show_text
from solward_cli.service_call import (
    ServiceCall,
    confirmed,
    fail,
    interruptible,
    service_call,
)

if TYPE_CHECKING:
    from solward.client import Policy
    from solward.resources.policy import Replay


GRANT_OPTIONS = tuple(each for each in declared_fields(GrantForm) if each not in SUBJECTS)
grant_options = request_options(GrantForm, without=SUBJECTS)
"""What a grant allows, without whom it is for; `grant_text` reads them."""


@click.group()
def policy() -> None:
    """Show, change and test grants; needs the admin secret."""


@policy.group()
def grant() -> None:
    """Add or remove a grant: what one principal may do."""


@grant.command()
@click.argument("text", metavar="[GRANT]", required=False)
@request_options(GrantForm)
@yes_option
@service_call
async def add(call: ServiceCall, text: str | None, yes: bool, **options: Any) -> Output:
    """Add GRANT: a sentence in quotes, a JSON file, or - for standard input; or use the options.

    \b
    solward policy grant add "scout can send alice 5 USDC a day, ask me above 2"
    solward policy grant add --agent scout --asset USDC --max 5 --to alice --ask-above 2
    solward policy grant add '{...}' is read from a file or -: a grant, an array of grants, or
    a policy, whose address book and readOnly are added too.
    """
    written = _sentence_of(**options)
    if (text is None) is (written is None):
        raise click.UsageError("Give either GRANT, or --agent or --key with --asset and --max")
    now = await call.client.policy.get()
    if written is None and text is not None and not _is_sentence(text):
        new = _read_document(text)
    else:
        new = await read_meaning(call, written or text or "", yes)
    if new.get("version", now.version) != now.version:
        fail(f"{text} has version {new['version']}, but version {now.version} is in force")
    book = {**now.book, **(new.get("book") or {})}
    # The service replaces the principals' names by their ids.
    read = await call.client.policy.check({**new, "book": book, "version": None})
    granted = {each["who"] for each in read.grants}
    kept = [each for each in now.read_only if each not in granted]
    added = [each for each in read.read_only if each not in kept]
    grants = [*now.grants, *read.grants]
    draft = await _check_draft(call, now, yes, book=book, grants=grants, readOnly=[*kept, *added])
    # A document of readOnly alone only takes rights away.
    if new.get("grants") or new.get("book"):
        if not yes:
            show_text(await _render_effects(call, draft), err=True)
        confirmed("Grant this?", yes)
    changed = await call.client.policy.replace({**draft.document, "version": now.version})
    return render_policy(changed)


def _sentence_of(**options: Any) -> str | None:
    """Return the options as a sentence that the service reads; None if none was given."""
    form = _form_of(options)
    if form == GrantForm():
        return None
    if not form.sentence:
        raise click.UsageError("Give --agent, --key or --schedule, and --asset and --max")
    return form.sentence


def grant_text(**options: Any) -> str:
    """Return `grant_options` as a sentence without its subject."""
    form = _form_of(options)
    if not form.permission:
        raise click.UsageError("Give --asset and --max")
    return form.permission


def _form_of(options: Mapping[str, Any]) -> GrantForm:
    return GrantForm(**{name: each for name, each in options.items() if each is not None})


async def read_meaning(call: ServiceCall, text: str, yes: bool) -> dict[str, Any]:
    """Return the grants that a sentence means; ask which ones, if it has several meanings."""
    found = await call.client.policy.read(sentence=text)
    for address, name in () if yes else found.recipients.items():
        show_text(plain(f"  {address} is {visible(name)}.", "dim"), err=True)
    meanings = found.readings
    if len(meanings) == 1:
        return {"grants": [*meanings[0].grants]}
    listed = [f"{at}. {' '.join(each.sentences)}" for at, each in enumerate(meanings, 1)]
    if yes or call.as_json or not _is_terminal():
        fail(f"The sentence has {len(meanings)} meanings; give one of them: {' '.join(listed)}")
    show_text(together(*map(plain, listed)), err=True)
    with interruptible():
        chosen = click.prompt("Which one", type=click.IntRange(1, len(meanings)), err=True)
    return {"grants": [*meanings[chosen - 1].grants]}


@grant.command()
@click.argument("who")
@click.argument("number", type=click.IntRange(1), required=False)
@click.option(
    "--all", "all_", is_flag=True, help="Remove all grants of WHO, so that only its limits bind it."
)
@yes_option
@service_call
async def remove(call: ServiceCall, who: str, number: int | None, all_: bool, yes: bool) -> Output:
    """Remove grant NUMBER of WHO, such as `agent:scout 2`.

    With its last grant removed, WHO can only read; a site is no longer paid.
    """
    if (number is None) is not all_:
        raise click.UsageError("Give the NUMBER of a grant, or --all")
    (principal,) = (await call.client.policy.check({"readOnly": [who]})).read_only
    now = await call.client.policy.get()
    own = [each for each in now.grants if each["who"] == principal]
    if number is not None and number > len(own):
        fail(f"{who} has {len(own)} grant{'' if len(own) == 1 else 's'}")
    left = None if number is None else [each for at, each in enumerate(own, 1) if at != number]
    rest = [each for each in now.grants if each["who"] != principal]
    read_only = [each for each in now.read_only if each != principal]
    if left == []:
        read_only.append(principal)
    grants = [*rest, *(left or [])]
    await _check_draft(call, now, yes, book=now.book, grants=grants, readOnly=read_only)
    if left is None:
        allowed = "do all that its limits allow"
        if principal.startswith("site:"):
            allowed = "be paid all that grants of others allow"
        confirmed(f"Let {who} {allowed}?", yes)
    await call.client.policy.put(principal, left, version=now.version)
    return render_policy(await call.client.policy.get())


@policy.command()
@click.argument("draft")
@service_call
async def check(call: ServiceCall, draft: str) -> Output:
    """Show what a draft policy allows, and how it differs from the policy in force.

    DRAFT is a whole policy as JSON: a file, or - for standard input.
    """
    checked = await call.client.policy.check(_read_document(draft))
    call.set_json(checked.raw)
    now = await call.client.policy.get()
    changes = render_change(now, checked)
    return together(render_policy(checked), plain(""), plain("Not in force:", "bold"), changes)


@policy.command()
@click.argument("draft", required=False)
@request_options(ReplayRequest, without=("draft",))
@service_call
async def replay(call: ServiceCall, draft: str | None, **asked: int | None) -> Output:
    """Show which past transactions a draft policy would have decided differently.

    Nothing is changed. Without DRAFT the policy in force is replayed.
    """
    document = None if draft is None else _read_document(draft)
    return render_replay(await call.client.policy.replay(draft=document, **asked))


async def _check_draft(call: ServiceCall, now: Policy, yes: bool, **document: Any) -> Policy:
    """Check a draft policy and return it; print its changes, except with --yes and --json."""
    draft = await call.client.policy.check(document)
    if not yes or not call.as_json:
        show_text(render_change(now, draft), err=call.as_json)
    return draft


async def _render_effects(call: ServiceCall, draft: Policy) -> Output:
    """Render what can leave under a draft, and the first transactions that it changes."""
    try:
        found = await call.client.policy.replay(
            days=DRAFT_DAYS, newest=DRAFT_NEWEST, draft=draft.document
        )
    except SolwardError as error:
        return plain(f"What the grant would change is not known: {error}", "bold")
    lines = []
    for each in found.can_leave:
        for when, leaving in (("Now", each.before), ("With the grant", each.after)):
            unlimited = any(of["most"] is None for of in leaving.assets.values())
            lines.append(plain(f"{when}: {leaving.sentence}", "red" if unlimited else ""))
    if found.wallets > len(found.can_leave):
        lines.append(plain(f"The grant concerns {found.wallets} wallets; the first are shown."))
    return together(*lines, render_replay(replace(found, changes=found.changes[:SHOWN_CHANGES])))


def _is_terminal() -> bool:
    return sys.stdin.isatty()


def _is_sentence(text: str) -> bool:
    # A text with a space is a sentence, unless a file has that name.
    return " " in text.strip() and not os.path.exists(text)


def _read_document(text: str) -> dict[str, Any]:
    """Read a policy's document from a file, standard input, or a sentence."""
    if _is_sentence(text):
        return {"grants": [text]}
    try:
        with click.open_file(text, encoding="utf-8") as file:
            read = jsontext.read(file.read())
    except jsontext.DuplicateKey as error:
        fail(f"{text} is ambiguous: {error}")
    except jsontext.UnfitValue as error:
        fail(f"{text} is not a policy: {error}")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        fail(
            f"{text!r} cannot be read ({why}); a JSON file, -, or a sentence in quotes is expected"
        )
    except ValueError:
        fail(f"{text} is not JSON")
    if isinstance(read, list):
        return {"grants": read}
    if not isinstance(read, dict):
        fail(f"{text} must be a grant, an array of grants, or a policy")
    return {"grants": [read]} if "may" in read else read


def render_policy(policy: Policy) -> Output:
    """Render the policy's sentences, each grant with its number, and the address book."""
    numbers: Counter[str] = Counter()
    rows: list[tuple[object, str]] = []
    for grant, sentence in zip(policy.grants, policy.sentences, strict=False):
        numbers[grant["who"]] += 1
        rows.append((numbers[grant["who"]], sentence))
    rows += [("", sentence) for sentence in policy.sentences[len(policy.grants) :]]
    parts = [table((">", "GRANTED"), rows, "There are no grants.")]
    if policy.book:
        parts += [plain(""), table(("BOOK", "ADDRESS"), [*_address_pairs(policy.book)], "")]
    if policy.version is not None:
        parts += [plain(""), plain(f"Version {policy.version}.", "dim")]
    return together(*parts)


def render_change(before: Policy, after: Policy) -> Output:
    """Render the sentences that only one of two policies has, a line each."""
    was, now = Counter(_policy_lines(before)), Counter(_policy_lines(after))
    lines = [plain(f"- {each}", "red") for each in (was - now).elements()]
    lines += [plain(f"+ {each}", "green") for each in (now - was).elements()]
    old, new = (
        dict.fromkeys((*(each["who"] for each in policy.grants), *policy.read_only))
        for policy in (before, after)
    )
    lines += [plain(f"  {each} will be bound by grants.", "dim") for each in new if each not in old]
    lines += [
        plain(f"  {each} will no longer be bound by grants.", "bold")
        for each in old
        if each not in new
    ]
    return together(*lines) if lines else plain("No changes.", "dim")


def render_replay(report: Replay) -> Output:
    """Render the transactions that a draft would have decided differently."""
    days = "the last day" if report.days == 1 else f"the last {report.days} days"
    counts = f"{report.judged} transactions of {days} judged, {report.changed} decided differently."
    if report.refused_by_other_rules:
        counts += f" Other rules refused {report.refused_by_other_rules} more."
    if report.omitted:
        counts += f" {report.omitted} older ones were not judged."
    if report.unread:
        counts += f" {report.unread} stored records cannot be read."
    if report.changed > len(report.changes):
        counts += f" The first {len(report.changes)} of them:"
    if not report.changes:
        return plain(counts)
    cells = ("timestamp", "transaction_id", "type", "in_force", "now", "sentence")
    return together(plain(counts), answer_table(report.changes, *cells, empty=""))


def _policy_lines(policy: Policy) -> Iterator[str]:
    yield from policy.sentences
    yield from (f"{name} is {address}" for name, address in _address_pairs(policy.book))


def _address_pairs(book: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((f"@{name}", each) for name, addresses in book.items() for each in addresses)


asks(policy, GET_POLICY, "Show the grants and the address book.", render_policy, name="show")


@click.group()
def contacts() -> None:
    """Name recipients; needs the admin secret."""


asks(
    contacts,
    PUT_CONTACT,
    "Add or rename the contact ADDRESS.",
    "{answer.address} is called {answer.name}.",
    name="add",
)
lists(
    contacts,
    LIST_CONTACTS,
    "List the contacts, then the members of the policy's groups, as @name.",
    *("name", "address", "created_at"),
    empty="There are no contacts yet.",
)
asks(
    contacts,
    REMOVE_CONTACT,
    "Remove a contact, by its name or address.",
    "{answer.address} has no name any more.",
    question="Remove the name {contact.name} of {contact.address}?",
)


def _render_switch(switch: Switch) -> Output:
    what = "The service" if switch.wallet_id is None else f"The wallet {switch.wallet_id}"
    return plain(f"{what} is {'frozen' if switch.frozen else 'not frozen'}.")


def _render_frozen(found: Frozen) -> Output:
    service = "The service is not frozen."
    if found.since is not None:
        why = f": {visible(found.reason)}" if found.reason else ""
        service = f"The service is frozen since {moment(found.since)} UTC{why}"
    none = "No single wallet is frozen."
    cells = (("WALLET", lambda each: each.name), "since", "reason")
    wallets = answer_table(found.wallets, *cells, empty=none)
    more = found.frozen_wallets - len(found.wallets)
    return together(plain(service), wallets, *([plain(f"and {more} more wallets")] if more else []))


freeze = asks(
    None,
    FREEZE,
    "Stop every new transaction at once, until `unfreeze`; needs the admin secret.",
    _render_switch,
)
unfreeze = asks(
    None,
    UNFREEZE,
    "Allow transactions again, of the service or of one wallet; needs the admin secret.",
    _render_switch,
)
frozen = asks(
    None,
    LIST_FROZEN,
    "Show what is frozen, since when and why; needs the admin secret.",
    _render_frozen,
)
