"""Policies, and what changes in them, as people read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from solward_cli.render import moment, plain, short, table, together

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import Policy
    from solward.resources.policy import Replay


def render_policy(policy: Policy) -> RenderableType:
    """Its sentences, each grant with its number, and the address book."""
    numbers: Counter[str] = Counter()
    rows: list[tuple[object, str]] = []
    for grant, sentence in zip(policy.grants, policy.sentences, strict=False):
        numbers[grant["who"]] += 1
        rows.append((numbers[grant["who"]], sentence))
    rows += [("", sentence) for sentence in policy.sentences[len(policy.grants) :]]
    parts = [table((">", "GRANTED"), rows, "Nobody is under grants.")]
    if policy.book:
        parts += [plain(""), table(("BOOK", "ADDRESS"), [*_addresses(policy.book)], "")]
    if policy.version is not None:
        parts += [plain(""), plain(f"Version {policy.version}.", "dim")]
    return together(*parts)


def render_change(before: Policy, after: Policy) -> RenderableType:
    """What one policy says and the other does not, a line each."""
    was, now = Counter(_policy_lines(before)), Counter(_policy_lines(after))
    lines = [plain(f"- {each}", "red") for each in (was - now).elements()]
    lines += [plain(f"+ {each}", "green") for each in (now - was).elements()]
    known = {*_principals(before)}
    new = [each for each in dict.fromkeys(_principals(after)) if each not in known]
    lines += [plain(f"  {each} is under grants from then on.", "dim") for each in new]
    gone = [each for each in dict.fromkeys(_principals(before)) if each not in _principals(after)]
    lines += [plain(f"  {each} is not under grants any more.", "bold") for each in gone]
    return together(*lines) if lines else plain("Nothing.", "dim")


def render_replay(report: Replay) -> RenderableType:
    """What a draft would have changed."""
    rows = [
        (
            moment(each.timestamp),
            short(each.transaction_id),
            each.type,
            each.in_force,
            each.now,
            each.sentence,
        )
        for each in report.changes
    ]
    days = "the last day" if report.days == 1 else f"the last {report.days} days"
    counts = f"{report.judged} transactions of {days} judged, {report.changed} otherwise."
    if report.refused_by_other_rules:
        counts += f" Other rules refused {report.refused_by_other_rules} more."
    if report.changed > len(rows):
        counts += f" The first {len(rows)} of them:"
    if not rows:
        return plain(counts)
    columns = ("TIME (UTC)", "ID", "TYPE", "IN FORCE", "DRAFT", "WHY")
    return together(plain(counts), table(columns, rows, ""))


def _policy_lines(policy: Policy) -> Iterator[str]:
    yield from policy.sentences
    yield from (f"{name} is {address}" for name, address in _addresses(policy.book))


def _principals(policy: Policy) -> list[str]:
    return [*(each["who"] for each in policy.grants), *policy.read_only]


def _addresses(book: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((f"@{name}", each) for name, addresses in book.items() for each in addresses)
