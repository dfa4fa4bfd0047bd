"""docs/how-to/python-client.md lists every call and every error of the client, and no other."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.promises import promise
from tests.support.repository import DOCS

from solward import client as package
from solward.client import ClientError, Operations, SolwardClient
from solward.types.errors import InvalidRequest

PAGE = (DOCS / "how-to/python-client.md").read_text()
CLIENT = SolwardClient("http://127.0.0.1:1", "sk-none")
GROUPS: dict[str, Any] = {
    name: group for name, group in vars(CLIENT).items() if not name.startswith("_")
}


def rows(heading: str) -> dict[str, str]:
    """First column, without backticks, and second one of the table that begins so."""
    table = PAGE.partition(heading)[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `?(\w+)`? \| (.*) \|$", table, re.MULTILINE))


def public(of: Any) -> set[str]:
    return {name for name in dir(of) if not name.startswith("_")}


def test_every_group_and_its_calls_are_on_the_page() -> None:
    listed = rows("| on the client | calls |\n")
    own = public(SolwardClient)
    operations = public(Operations) | {"dry_run", "try_route"}
    for name, group in {**GROUPS, "itself": None}.items():
        calls = own if group is None else public(group)
        named = set(re.findall(r"`(\w+)`", listed.pop(name)))
        # Money calls are `every money call` there, and those of `dry_run` the same.
        assert calls - operations <= named, name
        if group is not None and name not in ("wallets", "transactions"):
            assert named <= calls, name
    assert listed == {}


def calls() -> Iterator[tuple[str, Any]]:
    for name, group in {**GROUPS, "wallets.dry_run": CLIENT.wallets.dry_run}.items():
        for each in sorted(public(group)):
            if inspect.isroutine(getattr(group, each)):
                yield f"{name}.{each}", getattr(group, each)


@promise("client-is-documented")
@pytest.mark.parametrize(("name", "call"), list(calls()))
def test_every_call_has_help(name: str, call: Any) -> None:
    assert inspect.getdoc(call), name


def test_every_error_is_on_the_page_with_when_it_is_raised() -> None:
    errors = {
        name
        for name, each in vars(package).items()
        if isinstance(each, type) and issubclass(each, ClientError)
    }
    assert set(rows("| error | when |\n")) == errors | {InvalidRequest.__name__}
