"""What the commands do beyond asking: names, amounts, errors, questions, waiting, secrets."""

from __future__ import annotations

import contextlib
import csv
import io
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pytest
from tests.promises import promise
from tests.support.cli import STRANGER, Live
from tests.support.processes import SECRET, free_port

from solward.support import jsontext
from solward_cli.skills import parameters

OTHER = "Fb73vWgaqFqrgQhw8siHhR5txdYdMaMnSQVMfvyES5YV"


def sol_of(live: Live, wallet: str) -> Decimal:
    return Decimal(live.json("wallet", "balance", wallet)["sol"])


def test_wallets_are_named_by_name_id_address_and_beginning(live: Live) -> None:
    name = live.wallet()
    wallet = live.json("wallet", "show", name)
    for named in (wallet["id"], wallet["publicKey"], wallet["id"][:8]):
        assert live.json("wallet", "show", named) == wallet
    live.post("/wallets", name="twins")
    live.post("/wallets", name="twins")
    assert "2 wallets match 'twins'; use an id: " in live.error("wallet", "balance", "twins")
    assert "No wallet is named 'nobody'" in live.error("wallet", "balance", "nobody")


def test_an_amount_is_sent_as_it_is_written(live: Live) -> None:
    wallet = live.wallet()
    made = live.json("wallet", "transfer", wallet, STRANGER, "0.123456789")
    assert made["details"]["amount"] == Decimal("0.123456789")
    assert sol_of(live, wallet) == Decimal(2) - Decimal("0.123456789") - Decimal("0.000005")


@pytest.mark.parametrize("amount", ["1e3", "abc", "", "1,5", "0x1", "NaN"])
def test_an_amount_that_is_none_is_a_usage_error(live: Live, amount: str) -> None:
    result = live.invoke("wallet", "transfer", "demo", STRANGER, amount)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "it must be a number such as 0.5" in result.stderr


def test_money_goes_to_a_wallet_of_the_service_by_its_name(live: Live) -> None:
    payer, payee = live.wallet(), live.wallet(0)
    made = live.json("wallet", "transfer", payer, payee, "0.5")
    assert made["details"]["to"] == live.json("wallet", "show", payee)["publicKey"]


def test_a_dry_run_sends_nothing(live: Live) -> None:
    wallet = live.wallet()
    assert "allowed" in live.run("wallet", "transfer", wallet, STRANGER, "1", "--dry-run")
    refused = live.invoke("wallet", "transfer", wallet, STRANGER, "5", "--dry-run")
    assert (refused.exit_code, refused.stderr) == (1, "")
    assert "refused" in refused.stdout
    assert "max_per_tx" in refused.stdout
    told = live.json("wallet", "burn", wallet, live.mint(wallet), "1", "--dry-run")
    assert (told["dryRun"], told["allowed"]) == (True, True)
    assert live.json("wallet", "transfer", wallet, STRANGER, "1", "--dry-run")["allowed"] is True
    records = live.json("tx", "list", "--wallet", wallet)["transactions"]
    assert [record["type"] for record in records] == ["token_launch", "airdrop"]


def test_a_dry_run_says_who_is_paid_what_and_in_which_unit(live: Live) -> None:
    wallet, payee = live.wallet(), live.wallet(0)
    address = live.json("wallet", "show", payee)["publicKey"]
    shown = live.run("wallet", "transfer", wallet, live.id_of(payee)[:8], "0.5", "--dry-run")
    rows = dict(line.split(maxsplit=1) for line in shown.splitlines())
    assert rows["To"] == f"{payee} ({address})"
    assert rows["Leaves"] == "0.5 SOL"
    assert rows["Fee"] == "0.000005 SOL"
    swap = live.run("wallet", "swap", wallet, "SOL", "USDC", "0.01", "--dry-run")
    assert re.search(r"^Arrives +\d+\.\d{1,6} of USDC \(\w+\)$", swap, re.M), swap
    mint = live.mint(wallet)
    burn = live.run("wallet", "burn", wallet, mint, "1.5", "--dry-run")
    assert re.search(rf"^Leaves +1\.5 of {mint}$", burn, re.M), burn


def test_a_dry_run_of_what_would_be_held_says_so(live: Live) -> None:
    wallet, (_, secret) = live.wallet(), live.asker()
    command = ("wallet", "transfer", wallet, STRANGER, "0.2")
    tried = live.invoke(*command, "--dry-run", SOLWARD_API_KEY=secret)
    assert (tried.exit_code, tried.stderr) == (3, "")
    assert re.search(r"^Dry run +held: a person would be asked$", tried.stdout, re.M)
    assert live.invoke(*command, "--dry-run", "--json", SOLWARD_API_KEY=secret).exit_code == 3


def test_what_is_held_is_asked_for_again_by_the_key_that_is_printed(live: Live) -> None:
    wallet, (_, secret) = live.wallet(), live.asker()
    command = ("wallet", "transfer", wallet, STRANGER, "0.2")
    first = live.invoke(*command, SOLWARD_API_KEY=secret)
    key = re.search(r"^Then ask again with --idempotency-key (\S+)$", first.stderr, re.M)
    assert first.exit_code == 3
    assert key is not None
    again = live.invoke(*command, "--idempotency-key", key[1], SOLWARD_API_KEY=secret)
    assert again.stderr == first.stderr
    assert len(live.json("hold", "list", "--wallet", wallet)["holds"]) == 1


def test_an_export_that_cannot_be_written_is_one_line(live: Live) -> None:
    folder = live.home / "nothing here"
    for output, told in (
        (str(folder / "x.csv"), f"{folder}/x.csv cannot be written: No such file or directory"),
        ("", "it must name a file"),
    ):
        result = live.invoke("tx", "export", "--output", output)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.endswith(f"Error: Invalid value for --output: {told}\n")


@pytest.mark.more
def test_the_history_is_filtered_and_exported(live: Live) -> None:
    wallet = live.wallet()
    live.run("contacts", "add", "Landlord", STRANGER)
    live.run("wallet", "transfer", wallet, STRANGER, "0.5")
    live.error("wallet", "transfer", wallet, STRANGER, "5")
    of = ("--wallet", wallet)
    found = live.json("tx", "list", *of, "--to", "Landlord", "--status", "blocked", "--since", "1h")
    assert [each["details"]["amount"] for each in found["transactions"]] == [5]
    assert "no transactions" in live.run("tx", "list", *of, "--until", "2026-01-01")
    assert live.json("tx", "list", *of, "--agent", live.agent())["transactions"] == []
    assert "No agent is named 'nobody'" in live.error("tx", "list", "--agent", "nobody")
    assert "status" in live.invoke("tx", "list", "--status", "gone").stderr
    assert "it must be a time such as" in live.invoke("tx", "list", "--since", "soon").stderr
    printed = live.run("tx", "export", *of, "--to", STRANGER)
    assert [each["status"] for each in csv.DictReader(io.StringIO(printed))] == [
        "blocked",
        "confirmed",
    ]
    file = live.home / "export.csv"
    assert live.run("tx", "export", *of, "--output", str(file)) == ""
    assert file.read_text().count("Landlord") == 2
    # A file that was there stays where an export fails.
    live.error("tx", "export", "--to", "Nobody of this name", "--output", str(file))
    assert file.read_text().count("Landlord") == 2
    assert "An export is CSV" in live.invoke("tx", "export", "--json").stderr
    live.run("contacts", "remove", "Landlord", "--yes")
    assert "No contact has the name" in live.error("contacts", "remove", "Landlord", "--yes")


def test_a_payment_under_one_key_is_made_once(live: Live) -> None:
    wallet = live.wallet()
    command = ("wallet", "transfer", wallet, STRANGER, "0.5", "--idempotency-key", "rent-11")
    assert live.json(*command)["id"] == live.json(*command)["id"]
    assert sol_of(live, wallet) == Decimal("1.499995")


def test_a_refusal_is_one_line_and_exit_code_1(live: Live) -> None:
    wallet = live.wallet()
    blocked = live.error("wallet", "transfer", wallet, STRANGER, "5")
    assert blocked.startswith("Transaction blocked by guardrail max_per_tx")
    assert live.error("wallet", "transfer", wallet, STRANGER, "5", "--json") == blocked
    assert "insufficient" in live.error("wallet", "transfer", wallet, STRANGER, "1.99999999")
    assert "blocked" in live.run("tx", "list", "--wallet", wallet)


@pytest.mark.more
def test_a_service_that_is_not_there_is_told_with_what_to_do(live: Live) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    for command in (["wallet", "list"], ["events", "tail"], ["agent", "chat", "a", "b"]):
        told = live.error(*command, SOLWARD_API_URL=away)
        assert told == (
            f"No Solward service answers at {away}: start it with `solward up`, "
            "or set SOLWARD_API_URL"
        )
    assert away in live.error("wallet", "list", "--url", away)
    assert "url must be an http" in live.error("wallet", "list", "--url", "here")


def test_a_wrong_key_is_told_and_not_shown(live: Live) -> None:
    key = "sk-00000000000000000000000000000000"
    told = live.error("wallet", "list", SOLWARD_API_KEY=key)
    assert told.startswith("Invalid API key (set SOLWARD_API_KEY")
    told = live.error("key", "list", SOLWARD_API_KEY=key)
    assert "admin API secret required" in told


def test_a_wrong_setting_is_exit_code_2(live: Live) -> None:
    result = live.invoke("wallet", "list", SOLWARD_API_URL="ftp://here")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: SOLWARD_API_URL: expected an http")


def test_no_command_takes_a_secret_as_an_argument(live: Live) -> None:
    result = live.invoke("wallet", "list", "--token", SECRET)
    assert result.exit_code == 2
    assert "No such option" in result.stderr


def test_a_new_key_is_all_of_the_output_and_works(live: Live) -> None:
    wallet = live.wallet()
    result = live.invoke(
        "key", "create", "shell", "--wallet", wallet, "--spending-limit-sol", "0.5"
    )
    assert result.exit_code == 0
    key = result.stdout.removesuffix("\n")
    assert len(key) == 35
    assert "its secret is shown only once" in result.stderr
    assert key not in result.stderr
    seen = live.run("wallet", "list", SOLWARD_API_KEY=key)
    assert wallet in seen
    assert "demo" not in seen
    assert "spending_limit_check" in live.error(
        "wallet", "transfer", wallet, STRANGER, "0.6", SOLWARD_API_KEY=key
    )
    made = live.json("key", "create", "programs", "--spending-limit-sol", "0")
    assert made["apiKey"].startswith("sk-")
    # A limit of 0 is one.
    (kept,) = (each for each in live.json("key", "list")["keys"] if each["id"] == made["id"])
    assert kept["spendingLimitSol"]["limit"] == 0
    assert made["apiKey"] not in live.run("key", "list", "--json")


@pytest.mark.more
def test_a_key_gets_another_secret_and_keeps_its_limits(live: Live) -> None:
    wallet = live.wallet()
    span = ("--wallet", wallet, "--spending-limit-sol", "0.5", "--expires", "90d")
    old = live.invoke("key", "create", "rotated", *span).stdout.strip()
    live.run("wallet", "transfer", wallet, STRANGER, "0.4", SOLWARD_API_KEY=old)
    result = live.invoke("key", "rotate", "rotated", "--overlap", "600")
    new = result.stdout.removesuffix("\n")
    assert (len(new), result.exit_code, "its secret is shown only once" in result.stderr) == (
        35,
        0,
        True,
    )
    told = re.search(r"The old secret works until (.+) UTC; .+--overlap 0 ends", result.stderr)
    assert told is not None
    left = datetime.fromisoformat(f"{told[1]}Z") - datetime.now(UTC)
    assert timedelta(seconds=540) < left <= timedelta(seconds=600)
    for secret in (old, new):
        assert "spending_limit_check" in live.error(
            "wallet", "transfer", wallet, STRANGER, "0.2", SOLWARD_API_KEY=secret
        )
    listed = live.run("key", "list", COLUMNS="160")
    row = listed[listed.index("rotated") :].splitlines()[0].split("; ")
    expected = (
        "0.4 of 0.5 SOL a day",
        "0.000005 of 0.05 SOL of costs a day",
        "3 of 10 requests a minute",
        f"expires {datetime.now(UTC) + timedelta(days=90):%Y-%m-%d}",
        "old secret works until 20",
    )
    assert all(told in line for told, line in zip(expected, row, strict=True)), listed
    assert live.invoke("key", "rotate", "rotated", "--overlap", "0", given="n\n").exit_code == 1
    ended = live.invoke("key", "rotate", "rotated", "--overlap", "0", "--yes")
    assert "works until" not in ended.stderr
    assert "Invalid API key" in live.error("wallet", "list", SOLWARD_API_KEY=new)


def test_an_admin_credential_does_what_its_role_may_until_it_is_revoked(live: Live) -> None:
    result = live.invoke("admin", "add", "ana", "--role", "policy", "--expires", "90d")
    secret = result.stdout.removesuffix("\n")
    assert (len(secret), result.exit_code, "its secret is shown only once" in result.stderr) == (
        51,
        0,
        True,
    )
    assert secret not in result.stderr
    span = ("--role", "read", "--expires", "1d")
    made = live.invoke("admin", "add", "ben", *span, SOLWARD_API_KEY=secret)
    reader = made.stdout.removesuffix("\n")
    assert live.run("wallet", "list", SOLWARD_API_KEY=reader)
    told = live.error("freeze", SOLWARD_API_KEY=reader)
    assert "of the role operate; ben has the role read" in told
    rows = [line.split() for line in live.run("admin", "list", COLUMNS="160").splitlines()]
    (ben,) = [row for row in rows if "ben" in row]
    assert ben[1:4] == ["ben", "read", "ana"]
    assert live.invoke("admin", "revoke", "ana", given="n\n").exit_code == 1
    result = live.invoke("admin", "revoke", "ana", "--yes")
    assert result.stdout == "ana: revoked\n"
    assert "Admin credentials that it created stay valid: ben" in result.stderr
    assert "Invalid API key" in live.error("wallet", "list", SOLWARD_API_KEY=secret)
    assert live.invoke("admin", "add", "eve", "--role", "root").exit_code == 2


@pytest.mark.parametrize("expires", ["soon", "90", "0d", "2026-13-01", "99999999d"])
def test_an_expiry_that_is_none_is_a_usage_error(live: Live, expires: str) -> None:
    result = live.invoke("key", "create", "k", "--expires", expires)
    assert (result.exit_code, "2026-12-31T00:00:00Z" in result.stderr) == (2, True)


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_what_cannot_be_undone_is_asked_first(live: Live, answer: str) -> None:
    agent, key, wallet = live.agent(), live.key(), live.wallet()
    mint = live.mint(wallet)
    for command in (
        ("agent", "delete", agent),
        ("key", "revoke", key),
        ("wallet", "burn", wallet, mint, "1"),
        ("wallet", "revoke-authority", wallet, mint),
    ):
        result = live.invoke(*command, given=answer)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "[y/N]" in result.stderr
        # What is asked about is named: the wallet's, and which token, too.
        assert all(each in result.stderr for each in command[2:-1] or command[2:])
    assert agent in live.run("agent", "list")
    assert key in live.run("key", "list")
    assert live.json("wallet", "balance", wallet)["tokens"][0]["uiBalance"] == 10


def test_a_balance_is_shown_in_dollars_where_it_is_asked_for(live: Live) -> None:
    wallet = live.wallet()
    mint = live.mint(wallet)
    assert "USD" not in live.run("wallet", "balance", wallet)
    lines = live.run("wallet", "balance", wallet, "--usd").splitlines()
    (sol,) = [line.split() for line in lines if line.startswith("SOL")]
    (token,) = [line for line in lines if "no price" in line]
    (together,) = [line.split() for line in lines if line.startswith("total")]
    assert mint[:4] in token
    assert Decimal(sol[2]) > 0
    assert together[1:] == ["-", sol[2], "-"]
    priced = live.json("wallet", "balance", wallet, "--usd")["usd"]
    assert set(priced["assets"]) == {"SOL"}
    assert set(priced["unpriced"]) == {mint}


def test_a_skills_parameters_are_shown_with_their_limits(live: Live) -> None:
    shown = live.run("skills", "show", "swap")
    assert re.search(r"^inputToken +string +required; not empty; at most 64 ", shown, re.M)
    assert re.search(r"^slippageBps +integer +default 50; at least 0; ", shown, re.M)
    told = live.json("skills", "show", "swap")
    assert (told["name"], told["parameters"]["required"][0]) == ("swap", "inputToken")
    assert live.error("skills", "show", "swop").startswith("No skill named 'swop'; known: airdrop")


def test_a_name_that_nobody_has_is_told_the_nearest(live: Live) -> None:
    wallet = live.wallet(0)
    assert live.error("wallet", "show", f"{wallet}x") == (
        f"No wallet is named '{wallet}x', and none has this id; did you mean {wallet!r}?"
    )
    assert live.error("wallet", "show", "nobody").endswith("and none has this id")


def test_the_name_of_another_case_and_a_short_id_are_told(live: Live) -> None:
    wallet = live.wallet(0)
    assert live.error("wallet", "show", wallet.upper()).endswith(f"did you mean {wallet!r}?")
    short = live.error("wallet", "show", live.id_of(wallet)[:3])
    assert short.endswith("; an id may be shortened to 4 characters")


@promise("recipient-by-name-everywhere")
def test_a_contact_is_paid_by_its_name(live: Live) -> None:
    wallet = live.wallet()
    live.run("contacts", "add", "Baker", STRANGER)
    paid = live.json("wallet", "transfer", wallet, "Baker", "0.1")
    assert paid["details"]["to"] == STRANGER
    shown = live.run("wallet", "transfer", wallet, "Baker", "0.1", "--dry-run")
    assert re.search(rf"^To +Baker \({STRANGER}\)$", shown, re.M), shown
    # A name that is the beginning of a wallet's id too is neither.
    begins = live.id_of(live.wallet(0))[:8]
    live.run("contacts", "add", begins, OTHER)
    told = live.error("wallet", "transfer", wallet, begins, "0.1")
    assert told.startswith(f"TO '{begins}' is the name of 2 addresses; give one of them: ")
    live.run("contacts", "remove", begins, "--yes")
    _, secret = live.asker()
    told = live.error("wallet", "transfer", wallet, "Baker", "0.1", SOLWARD_API_KEY=secret)
    assert told.startswith("No wallet is named 'Baker'")
    live.run("contacts", "remove", "Baker", "--yes")


def test_who_has_a_key_is_not_told_to_set_one(live: Live) -> None:
    _, secret = live.asker()
    told = live.error("key", "list", SOLWARD_API_KEY=secret)
    assert told.endswith("(set SOLWARD_API_KEY to the admin secret)")


def test_the_audit_log_takes_the_times_and_names_of_other_commands(live: Live) -> None:
    wallet, (name, secret) = live.wallet(), live.asker()
    live.run("wallet", "transfer", wallet, STRANGER, "0.01", SOLWARD_API_KEY=secret)
    of = ("audit", "list", "--wallet", wallet, "--principal", f"key:{name}")
    assert len(live.json(*of, "--since", "1h")["entries"]) >= 2
    assert live.json(*of, "--until", "2026-01-01T00:00:00Z")["entries"] == []
    assert "No key is named 'none'" in live.error("audit", "list", "--principal", "key:none")


def test_every_row_of_a_pipe_has_its_columns_whatever_a_name_has(live: Live) -> None:
    made = live.post("/wallets", name="two   spaces  here")["walletId"]
    (row,) = [line for line in live.run("wallet", "list").splitlines() if made in line]
    assert [len(re.split(" {2,}", row)), "two spaces here" in row] == [3, True]


def test_an_amount_that_is_none_is_told_in_a_line(live: Live) -> None:
    long = live.invoke("wallet", "transfer", "a", STRANGER, "9" * 5000)
    assert (long.exit_code, len(long.stderr) < 400) == (2, True)
    assert f"got '{'9' * 40}…'" in long.stderr
    negative = live.invoke("wallet", "transfer", "a", STRANGER, "-1")
    assert (negative.exit_code, "amounts cannot be negative" in negative.stderr) == (2, True)
    option = live.invoke("wallet", "transfer", "a", STRANGER, "1", "--dry")
    assert (option.exit_code, "--dry-run" in option.stderr) == (2, True)


@pytest.mark.parametrize("name", ["[red]gone[/red]", "[/]", ":smile:", "grüße 世界", "--help"])
def test_a_name_is_no_markup(live: Live, name: str) -> None:
    wallet = live.post("/wallets", name=name)["walletId"]
    assert name in live.run("wallet", "list")
    assert name in live.run("wallet", "show", wallet)
    assert live.json("wallet", "show", wallet)["name"] == name
    live.post("/freeze", walletId=wallet, reason=name)
    assert name in live.error("wallet", "airdrop", wallet)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\x1b[2Jb", "a\\x1b[2Jb"),
        ("right\u202eleft", "right\\u202eleft"),
        ("two\nlines", "two\\nlines"),
        ("bell\x07\x9b", "bell\\x07\\x9b"),
        ("a\u200bb\u2028c", "a\\u200bb\\u2028c"),
    ],
)
def test_what_is_unseen_is_written_out(live: Live, text: str, seen: str) -> None:
    live.post("/keys", name=text)
    assert seen in live.run("key", "list")
    asked = live.invoke("key", "revoke", text, given="n\n")
    assert seen in asked.stderr
    assert live.run("key", "revoke", text, "--yes") == f"{seen}: revoked\n"
    agent = live.agent()
    with live.rest as client:
        agents = client.get("/agents").json()["agents"]
        id_ = next(each["id"] for each in agents if each["name"] == agent)
        assert client.patch(f"/agents/{id_}", json={"strategy": text}).status_code == 200
    shown = live.run("agent", "show", agent)
    # A value of several lines keeps them; nothing else that a terminal would obey is left.
    assert seen.split("\\n")[0] in shown
    assert all(each.isprintable() or each == "\n" for each in shown)


def test_an_error_shows_what_it_quotes_as_text(live: Live) -> None:
    told = live.error("wallet", "show", "\x1b[2J[red]nobody\u202e")
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert "[red]nobody" in told


def test_transactions_are_shown_by_id_beginning_and_signature(live: Live) -> None:
    wallet = live.wallet()
    made = live.json("wallet", "transfer", wallet, STRANGER, "0.1")
    record = {name: value for name, value in made.items() if name != "metadata"}
    for wanted in (made["id"], made["id"][:8], made["signature"]):
        assert live.json("tx", "show", wanted) == record
    assert "No transaction has the id" in live.error("tx", "show", "zzzz")


def test_waiting_for_a_refused_transaction_is_exit_code_1(live: Live) -> None:
    wallet = live.wallet(1)
    live.error("wallet", "transfer", wallet, STRANGER, "5")
    record = live.json("tx", "list", "--wallet", wallet, "--limit", "1")["transactions"][0]
    result = live.invoke("tx", "watch", record["id"], "--json")
    assert (result.exit_code, result.stderr) == (
        1,
        "The transaction was not confirmed; its status: blocked.\n",
    )
    assert jsontext.loads(result.stdout) == record


@contextlib.contextmanager
def process(live: Live, *arguments: str, **files: Any) -> Iterator[subprocess.Popen[str]]:
    """The command in a process of its own, gone at the end."""
    started = subprocess.Popen(
        [sys.executable, "-m", "solward_cli", *arguments],
        env=os.environ | {"SOLWARD_API_URL": live.url, "SOLWARD_API_KEY": SECRET, "TERM": "xterm"},
        cwd=live.home.parent,
        text=True,
        preexec_fn=_heeds_interrupts,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | files,
    )
    with started:
        try:
            yield started
        finally:
            started.kill()


def _heeds_interrupts() -> None:
    # What a shell starts in the background ignores them, and so do its children: these tests too.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.more
def test_transactions_are_watched_as_they_happen(live: Live) -> None:
    wallet = live.wallet()
    with process(live, "tx", "watch", "--wallet", wallet, "--count", "2") as watching:
        while watching.poll() is None:
            # What comes before it listens is not told, so there is always another.
            live.run("wallet", "transfer", wallet, STRANGER, "0.001")
        out, errors = watching.communicate(timeout=20)
    assert errors == ""
    # It may have begun to listen in the middle of one.
    assert sorted(line.split()[4] for line in out.splitlines()) == ["confirmed", "pending"]


@pytest.mark.more
def test_an_endless_command_ends_quietly_when_it_is_interrupted(live: Live) -> None:
    with process(live, "events", "tail", "--after", "0") as tailing:
        assert tailing.stdout is not None
        assert "wallet:created" in tailing.stdout.readline()
        tailing.send_signal(signal.SIGINT)
        _, errors = tailing.communicate(timeout=20)
    assert (tailing.returncode, errors) == (130, "")


@pytest.mark.more
def test_an_endless_command_ends_quietly_when_nobody_reads_on(live: Live) -> None:
    with process(live, "events", "tail", "--after", "0", "--json") as tailing:
        assert tailing.stdout is not None
        assert "wallet:created" in tailing.stdout.readline()
        tailing.stdout.close()
        while tailing.poll() is None:
            live.wallet(0)
        assert tailing.stderr is not None
        assert tailing.stderr.read() == ""


@pytest.mark.more
@pytest.mark.parametrize(
    ("command", "asks", "code"),
    [(("agent", "chat", "demo-agent"), "> ", 130), (("key", "revoke", "waits"), "[y/N]: ", 130)],
)
def test_a_question_is_left_by_one_interrupt(
    live: Live, command: tuple[str, ...], asks: str, code: int
) -> None:
    live.post("/keys", name="waits")
    ours, theirs = pty.openpty()
    try:
        streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
        with process(live, *command, **streams) as asking:
            shown = ""
            while asks not in shown:
                shown += os.read(ours, 4096).decode()
            # The prompt is written just before the wait; an interrupt in between waits too.
            while Path(f"/proc/{asking.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
                pass
            asking.send_signal(signal.SIGINT)
            assert asking.wait(20) == code
        assert "Traceback" not in shown
    finally:
        os.close(ours)
        os.close(theirs)
    for key in live.get("/keys")["keys"]:
        if key["name"] == "waits":
            live.run("key", "revoke", key["id"], "--yes")


def test_an_agent_is_made_with_a_wallet_of_its_own_and_started(live: Live) -> None:
    made = live.json(
        *(
            "agent",
            "create",
            "own",
            "--strategy",
            "always do wait",
            "--max-sol-per-transaction",
            "0.25",
        ),
        *("--llm-provider", "rules", "--llm-model", "rules", "--start"),
    )
    assert (made["status"], made["guardrails"]["maxSolPerTransaction"]) == (
        "running",
        Decimal("0.25"),
    )
    assert live.json("wallet", "show", "own-wallet")["id"] == made["walletId"]
    live.run("agent", "stop", "own")


def test_an_agents_limits_have_their_units(live: Live) -> None:
    shown = live.run(
        *(
            "agent",
            "create",
            "limited",
            "--strategy",
            "always do wait",
            "--max-sol-per-transaction",
            "0.25",
        ),
        *("--llm-provider", "rules", "--llm-model", "rules", "--loop-interval-ms", "5400000"),
    )
    rows = [re.split(" {2,}", line.strip()) for line in shown.splitlines()]
    assert ["Most SOL in a transaction", "0.25"] in rows
    assert ["Most US dollars of the model in a day", "5"] in rows
    assert ["Every", "90m"] in rows


def test_wrapped_sol_is_told_apart(live: Live) -> None:
    wallet = live.wallet()
    live.run("wallet", "wrap-sol", wallet, "0.5")
    rows = [line.split() for line in live.run("wallet", "balance", wallet).splitlines()]
    assert [row[:2] for row in rows[2:]] == [["wSOL", "0.5"]]


def test_an_agent_that_is_made_and_cannot_start_is_told_with_its_id(live: Live) -> None:
    told = live.error(
        *(
            "agent",
            "create",
            "away",
            "--strategy",
            "be careful",
            "--max-sol-per-transaction",
            "0.1",
        ),
        *("--llm-provider", "openai", "--llm-model", "gpt-4o-mini", "--start"),
        OPENAI_API_KEY="",
    )
    made = live.json("agent", "show", "away")
    assert told.startswith("The agent away was created but could not be started: ")
    assert told.endswith(f"Start it with: solward agent start {made['id']}")


def test_a_schedule_is_shown_with_the_grants_that_bound_it(live: Live) -> None:
    wallet, sentence = live.wallet(), "Schedule pay may transfer up to 0.1 SOL a day, to anybody."
    made = live.run(
        *("schedule", "create", wallet, "pay", "transfer", "--every", "1h", "--grant", sentence),
        *("--param", f"to={STRANGER}", "--param", "amount=0.01"),
    )
    for shown in (
        made,
        live.run("schedule", "show", wallet, "pay"),
        live.run("schedule", "pause", wallet, "pay"),
    ):
        assert re.search(rf"^May +{re.escape(sentence)}$", shown, re.M), shown
    assert live.json("schedule", "show", wallet, "pay")["name"] == "pay"


def test_a_schedule_is_changed_field_by_field_and_fields_are_taken_away(live: Live) -> None:
    wallet, sentence = live.wallet(), "may transfer up to 0.1 SOL a day, to anybody"
    create = ("schedule", "create", wallet, "rent", "transfer", "--every", "1h")
    made = live.json(
        *(*create, "--param", f"to={STRANGER}", "--param", "amount=0.01", "--grant", sentence),
        *("--start-at", "2199-01-01", "--max-runs", "1000000"),
    )
    assert (made["startAt"], made["maxRuns"]) == ("2199-01-01T00:00:00.000Z", 1_000_000)
    change = ("schedule", "change", wallet, "rent")
    shown = live.run(*change, "--cron", "0 9 * * *", "--missed", "once", "--clear", "max-runs")
    assert re.search(r"^When +0 9 \* \* \* UTC$", shown, re.M), shown
    assert f"Schedule rent {sentence}." in shown, shown
    changed = live.json(*change, "--param", f"to={STRANGER}", "--param", "amount=0.02")
    assert changed["parameters"] == {"to": STRANGER, "amount": Decimal("0.02")}
    assert (changed["missed"], changed["maxRuns"], "every" in changed) == ("once", None, False)
    assert sentence not in live.run(*change, "--clear", "grant", "--clear", "start-at")
    assert live.json("schedule", "show", wallet, "rent")["startAt"] is None
    assert "changes the schedule" in live.invoke(*change).stderr
    assert "1<=x<=1000000" in live.invoke(*change, "--max-runs", "1000001").stderr


def test_a_hold_is_shown_by_the_beginning_of_its_id_also_once_it_ended(live: Live) -> None:
    held = live.held()
    assert held in live.run("hold", "show", held[:8])
    live.run("hold", "deny", held[:8])
    assert live.json("hold", "show", held[:8])["state"] == "denied"
    assert "No hold has the id 'ffffff'" in live.error("hold", "show", "ffffff")


def test_a_strategy_comes_from_a_file_and_defaults_from_the_settings(
    live: Live, tmp_path: Path
) -> None:
    file = tmp_path / "strategy.txt"
    file.write_text("always do wait\n")
    command = (
        "agent",
        "create",
        "filed",
        "--max-sol-per-transaction",
        "1",
        "--strategy-file",
        str(file),
    )
    defaults = {
        "DEFAULT_LLM_PROVIDER": "rules",
        "DEFAULT_LLM_MODEL": "rules",
        # A secret, and what is wrong without it.
        "SOLANA_RPC_URL": "http://127.0.0.1:1",
        "SOLANA_NETWORK": "mainnet-beta",
    }
    assert "always do wait" in live.run(*command, **defaults)
    for wrong in (
        ("agent", "create", "x", "--max-sol-per-transaction", "1"),
        ("agent", "create", "x", "--strategy", "always do wait"),
        (*command, "--strategy", "always do wait"),
        ("agent", "chat", "demo-agent", "--json"),
    ):
        result = live.invoke(*wrong)
        assert result.exit_code == 2, result.output
        assert "Usage:" in result.stderr


def test_a_chat_goes_on_line_by_line(live: Live) -> None:
    agent = live.agent(start=True)
    printed = live.run("agent", "chat", agent, given="hello\n\nand again\n")
    assert printed.count("I am a rule-based demo") == 2
    stopped = live.agent()
    assert live.error("agent", "chat", stopped, "hello") == "Agent is not running"


def test_a_skill_gets_its_parameters_as_its_schema_wants_them(live: Live) -> None:
    wallet = live.wallet()
    printed = live.run(
        *("skills", "run", "transfer", "--wallet", wallet),
        *("--param", f"to={STRANGER}", "--param", "amount=0.25"),
    )
    assert "Sent 0.25 SOL" in printed
    body = f'{{"to": "{STRANGER}", "amount": 0.25}}'
    told = live.json("skills", "run", "transfer", "--wallet", wallet, "--param", body)
    assert "Sent 0.25 SOL" in told["result"]
    assert sol_of(live, wallet) == Decimal("1.49999")
    unknown = live.error("skills", "run", "fly", "--wallet", wallet)
    assert "No skill named 'fly'" in unknown
    result = live.invoke("skills", "run", "wait", "--wallet", wallet, "--param", "amount")
    assert result.exit_code == 2
    assert "neither NAME=VALUE nor a JSON object" in result.stderr


def test_parameters_keep_texts_and_exact_numbers() -> None:
    properties = {"memo": {"type": "string"}, "amount": {"type": "number"}}
    given = ("memo=1.50", "amount=1.50", "flag=true", "name=plain", 'all={"a":1}', "eq=a=b")
    assert parameters(given, properties) == {
        "memo": "1.50",
        "amount": Decimal("1.50"),
        "flag": True,
        "name": "plain",
        "all": {"a": 1},
        "eq": "a=b",
    }


@pytest.mark.parametrize(
    "given",
    [("amount=1", "amount=2"), ('{"amount":1}', "amount=2"), ("amount=1", '{"a":1,"amount":2}')],
)
def test_a_parameter_that_is_given_twice_is_refused(given: tuple[str, ...]) -> None:
    with pytest.raises(click.BadParameter, match="amount is given twice"):
        parameters(given, {})


@pytest.mark.more
def test_a_spinner_is_shown_on_the_terminal_and_never_in_the_output(live: Live) -> None:
    wallet = live.wallet(1)
    ours, theirs = pty.openpty()
    try:
        with process(live, "wallet", "airdrop", wallet, "--json", stderr=theirs) as asking:
            out, _ = asking.communicate(timeout=60)
            shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert asking.returncode == 0
    assert "Asking the faucet" in shown
    assert jsontext.loads(out)["status"] == "confirmed"
