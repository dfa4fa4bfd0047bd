"""Tables and lists of answers say what the declarations of their fields say."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import click
import pytest

from solward.resources.declare import Answer, declared, resource
from solward.resources.fields import Amount, Choice, Flag, Id, Text, Texts, Time
from solward_cli.audit import audit
from solward_cli.credentials import key
from solward_cli.render import answer_fields, answer_table, show

ID = "07e36977-7335-4ac1-bc2f-a8d680f0aec2"


@resource
class Lamp(Answer):
    id: str = declared(Id("The lamp."))
    wallet_id: str | None = declared(Id("Whose it is.", null="all"))
    price: Decimal = declared(Amount("SOL.", title="Price in SOL"))
    status: str = declared(Choice("How it is.", options=("on", "off")))
    is_new: bool = declared(Flag("Whether it is."))
    tags: tuple[str, ...] = declared(Texts("Some.", each="One."), default=())
    lit_at: datetime | None = declared(Time("Null: not yet.", null="never"))
    note: str | None = declared(Text("A line."), default=None)


def lamp(lit_at: datetime | None, note: str | None = None) -> Lamp:
    return Lamp(
        raw={},
        id=ID,
        wallet_id=None,
        price=Decimal("0.50"),
        status="on",
        is_new=True,
        tags=("a", "b"),
        lit_at=lit_at,
        note=note,
    )


LIT = datetime(2026, 11, 30, 1, 2, 3, tzinfo=UTC)
CELLS = ("id", "wallet_id", "price", "status", "is_new", "tags", "lit_at", "note")


def test_a_table_has_the_titles_of_its_fields_and_says_what_null_means(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(answer_table([lamp(LIT), lamp(None, "x")], *CELLS, empty="None."))
    head, first, second = (line.split("  ") for line in capsys.readouterr().out.splitlines())
    columns = [each.strip() for each in head if each.strip()]
    assert columns == [
        "ID", "WALLET", "PRICE IN SOL", "STATUS", "IS NEW", "TAGS", "LIT (UTC)", "NOTE"
    ]  # fmt: skip
    cells = [[each.strip() for each in row if each.strip()] for row in (first, second)]
    assert cells == [
        [ID, "all", "0.50", "on", "yes", "a, b", "2026-11-30 01:02:03", "-"],
        [ID, "all", "0.50", "on", "yes", "a, b", "never", "x"],
    ]


def test_an_id_is_short_in_a_table_on_a_terminal_and_whole_in_a_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("solward_cli.render.is_terminal", lambda: True)
    show(answer_table([lamp(LIT)], "id", "price", empty=""))
    show(answer_fields(lamp(LIT), "id", "price"))
    printed = capsys.readouterr().out.split()
    assert printed == f"ID PRICE IN SOL {ID[:8]}… 0.50 Lamp {ID} Price in SOL 0.50".split()


def test_a_list_leaves_out_what_there_is_not_and_has_what_is_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(answer_fields(lamp(LIT), "lit_at", "note", ("tags", None), ("Heat", lambda _: "warm")))
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert [[each.strip() for each in line if each.strip()] for line in lines] == [
        ["Lit", "2026-11-30 01:02:03 UTC"],
        ["Heat", "warm"],
    ]


def test_an_empty_table_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    show(answer_table((), *CELLS, empty="There are no lamps."))
    assert capsys.readouterr().out == "There are no lamps.\n"


def test_an_option_of_a_time_says_which_way_it_goes() -> None:
    listed = {each.name: each for each in audit.commands["list"].params}
    since, ends = listed["since"], {each.name: each for each in key.commands["create"].params}
    assert isinstance(since, click.Option)
    assert since.help == (
        "Only entries from this time on. ISO 8601 (UTC), or a span before now, such as 7d."
    )
    assert (
        ends["expires_at"].help
        == "When the credential expires: an ISO 8601 time, or a span such as 90d."
    )
