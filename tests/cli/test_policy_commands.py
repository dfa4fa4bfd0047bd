"""`solward policy` and `solward hold`: what is asked before it is granted or paid, and by whom."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
from tests.promises import promise
from tests.support.cli import STRANGER, Live

from solward_cli.service_call import EXIT_HELD


def sentences(live: Live) -> list[str]:
    found: list[str] = live.get("/policy")["sentences"]
    return found


def paid(live: Live, wallet: str) -> Any:
    return live.get(f"/wallets/{live.id_of(wallet)}/transactions")["transactions"][0]


def test_a_grant_is_added_by_its_sentence_once_it_was_agreed_to(live: Live) -> None:
    says = f"Key {live.key()} may transfer up to 1 SOL a day, to anybody."
    for given in ("n\n", ""):
        result = live.invoke("policy", "grant", "add", says, given=given)
        assert (result.exit_code, "Grant this?" in result.stderr) == (1, True)
        assert f"+ {says}" in " ".join(result.stdout.split())
        assert says not in sentences(live)
    result = live.invoke("policy", "grant", "add", says, given="y\n")
    assert (result.exit_code, says in sentences(live)) == (0, True)
    # A second one beside it.
    more = says.replace("transfer", "stake").replace(", to anybody", "")
    live.run("policy", "grant", "add", more, "--yes")
    assert {says, more} <= {*sentences(live)}


def test_a_persons_words_are_stored_as_the_sentence_that_was_shown(live: Live) -> None:
    key = live.key()
    live.run("contacts", "add", f"to {key}", STRANGER)
    means = f"Key {key} may transfer up to 1 SOL a day, to {STRANGER}; above 0.5 SOL a person is"
    words = f'{key} can send "to {key}" 1 sol per day, ask me above 0.5'
    for given in ("n\n", "y\n"):
        result = live.invoke("policy", "grant", "add", words, given=given)
        assert f"+ {means} asked." in " ".join(result.stdout.split())
        assert f"{STRANGER} is to {key}." in result.stderr
        # What it changes is said before it is asked.
        effects, _, _ = result.stderr.partition("Grant this?")
        for said in ("Now: ", "With the grant: At most", "of the last 30 days judged"):
            assert said in " ".join(effects.split())
    assert f"{means} asked." in sentences(live)
    options = ("--key", key, "--asset", "SOL", "--max", "2", "--per", "week", "--at-once", "1")
    more = ("--to", "own", "--hours", "07:00-22:00 UTC", "--until", "2030-12-31", "--may", "fund")
    live.run("policy", "grant", "add", *options, *more, "--ask-above", "0.5", "--yes")
    assert (
        f"Key {key} may fund up to 1 SOL at once and 2 a week, to own wallets; above 0.5 SOL a"
        " person is asked; from 07:00 to 22:00 UTC; until 2030-12-31T00:00:00Z."
    ) in sentences(live)


def test_options_to_pay_make_no_grant_to_transfer(live: Live) -> None:
    key = live.key()
    options = ("--may", "pay", "--may", "stake", "--asset", "SOL", "--max", "1", "--to", STRANGER)
    live.run("policy", "grant", "add", "--key", key, *options, "--yes")
    means = f"Key {key} may pay and stake up to 1 SOL a day, to {STRANGER}."
    assert means in sentences(live)


def test_a_sentence_with_several_meanings_is_never_stored_unasked(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, before = live.key(), sentences(live)
    words = f"{key} can send 1 SOL to anyone"
    week = f"Key {key} may transfer up to 1 SOL a week, to anybody."
    for options in ((), ("--yes",), ("--json",)):
        error = live.error("policy", "grant", "add", words, *options)
        assert error.startswith("The sentence has 3 meanings")
        assert f"2. {week}" in error
    assert sentences(live) == before
    monkeypatch.setattr("solward_cli.policy._is_terminal", lambda: True)
    result = live.invoke("policy", "grant", "add", words, given="2\ny\n")
    assert (result.exit_code, "Which one" in result.stderr) == (0, True)
    assert week in sentences(live)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ((), "Give either GRANT, or --agent or --key"),
        (("x may y", "--agent", "a", "--asset", "SOL", "--max", "1"), "Give either GRANT"),
        (("--agent", "a"), "and --asset and --max"),
        (("--agent", "a", "--key", "b", "--asset", "SOL", "--max", "1"), "Give --agent, --key or"),
        (("--agent", "nobody", "--asset", "SOL", "--max", "1"), 'No agent is called "nobody"'),
        (("--agent", "nobody", "--asset", "SOL", "--max", "-1"), "--max"),
    ],
)
def test_options_that_make_no_grant_are_refused(
    live: Live, options: tuple[str, ...], error: str
) -> None:
    result = live.invoke("policy", "grant", "add", *options)
    assert result.exit_code in (1, 2)
    assert error in result.stderr


def test_json_of_add_is_one_answer_and_the_question_is_beside_it(live: Live) -> None:
    says = f"Key {live.key()} may transfer up to 1 SOL a day, to anybody."
    result = live.invoke("policy", "grant", "add", says, "--json", given="y\n")
    assert result.exit_code == 0
    assert says in json.loads(result.stdout)["sentences"]
    assert "Grant this?" in result.stderr


def test_a_policy_from_standard_input_adds_its_book_and_who_only_reads(live: Live) -> None:
    pays, reads = live.key(), live.key()
    grant = {
        "who": f"key:{pays}", "may": ["transfer"], "to": ["@shops"],
        "assets": {"SOL": {"per": {"1h": "0.5"}}},
    }  # fmt: skip
    new = {"book": {"shops": [STRANGER]}, "grants": [grant], "readOnly": [f"key:{reads}"]}
    live.run("policy", "grant", "add", "-", "--yes", given=json.dumps(new))
    assert f"Key {pays} may transfer up to 0.5 SOL an hour, to @shops." in sentences(live)
    assert f"Key {reads} may only read." in sentences(live)
    assert live.get("/policy")["policy"]["book"]["shops"] == [STRANGER]
    # Somebody who only read is granted something.
    live.run("policy", "grant", "add", f"Key {reads} may stake up to 1 SOL a day.", "--yes")
    assert f"Key {reads} may only read." not in sentences(live)
    stale = json.dumps({**new, "version": live.get("/policy")["policy"]["version"] + 1})
    refused = live.invoke("policy", "grant", "add", "-", "--yes", given=stale)
    assert refused.exit_code == 1
    assert "is in force" in refused.stderr
    # To read alone is less than before, so nobody is asked.
    other = json.dumps({"readOnly": [f"key:{live.key()}"]})
    live.run("policy", "grant", "add", "-", given=other)


def test_a_grant_is_removed_by_its_number_and_the_last_leaves_who_only_reads(live: Live) -> None:
    key = live.key()
    stakes = f"Key {key} may stake up to 1 SOL a day."
    wraps = f"Key {key} may wrap up to 1 SOL a day."
    for each in (stakes, wraps):
        live.run("policy", "grant", "add", each, "--yes")
    assert live.error("policy", "grant", "remove", f"key:{key}", "3") == f"key:{key} has 2 grants"
    live.run("policy", "grant", "remove", f"key:{key}", "1")
    assert (stakes in sentences(live), wraps in sentences(live)) == (False, True)
    live.run("policy", "grant", "remove", f"key:{key}", "1")
    assert f"Key {key} may only read." in sentences(live)
    # Out of grants is more than none.
    result = live.invoke("policy", "grant", "remove", f"key:{key}", "--all", given="n\n")
    assert (result.exit_code, f"Key {key} may only read." in sentences(live)) == (1, True)
    live.run("policy", "grant", "remove", f"key:{key}", "--all", "--yes")
    assert f"Key {key} may only read." not in sentences(live)
    assert live.invoke("policy", "grant", "remove", f"key:{key}").exit_code == 2


def test_paying_sites_is_granted_by_sentences_and_a_site_without_a_grant_is_not_paid(
    live: Live,
) -> None:
    key = live.key()
    pays = f"Key {key} may pay up to 0.05 SOL at once and 1 a day, to anybody, through "
    pays += "127.0.0.1:4021 or api.example.com."
    site = "Site ads.example.com may be paid up to 1 SOL a day."
    for each in (pays, site):
        live.run("policy", "grant", "add", each, "--yes")
    assert {pays, site} <= {*sentences(live)}
    live.run("policy", "grant", "remove", "site:ads.example.com", "1")
    assert "Site ads.example.com may not be paid." in sentences(live)
    result = live.invoke("policy", "grant", "remove", "site:ads.example.com", "--all", given="n\n")
    asks = "Let site:ads.example.com be paid all that grants of others allow?"
    assert (result.exit_code, asks in result.stderr) == (1, True)
    live.run("policy", "grant", "remove", "site:ads.example.com", "--all", "--yes")
    assert not any("ads.example.com" in each for each in sentences(live))
    capitals = pays.replace("api.example.com", "API.example.com")
    refused = live.error("policy", "grant", "add", capitals, "--yes")
    assert refused.startswith("grants[0].via[1]: a host in lower case and ASCII")


def test_check_says_what_is_not_in_force_and_changes_nothing(live: Live) -> None:
    live.run("policy", "grant", "add", f"Key {live.key()} may stake up to 1 SOL a day.", "--yes")
    before = live.get("/policy")
    new = f"Key {live.key()} may wrap up to 2 SOL a day."
    now = before["policy"]
    read = json.dumps({"book": now["book"], "grants": [*now["grants"], new]})
    printed = live.run("policy", "check", "-", given=read)
    said = printed.partition("Not in force:")[2]
    assert f"+ {new}" in " ".join(said.split())
    assert "may stake up to 1 SOL" not in said
    assert live.get("/policy") == before


@pytest.mark.more
def test_what_is_wrong_with_a_draft_is_one_line_that_names_it(live: Live) -> None:
    file = live.home / "wrong.json"
    for text, error in (
        ("{", f"{file} is not JSON"),
        ('{"grants": [], "grants": []}', f"{file} is ambiguous: grants stands twice"),
        ("5", f"{file} must be a grant, an array of grants, or a policy"),
        ('{"who": "key:nobody", "may": ["stake"]}', "grants[0].who: no key has the id or name"),
        ('[{"may": ["fly"]}]', "grants[0].who: is required"),
    ):
        file.write_text(text)
        for command in (("grant", "add"), ("check",), ("replay",)):
            assert live.error("policy", *command, str(file)).startswith(error)
    missing = live.error("policy", "check", str(live.home / "none.json"))
    assert "a JSON file, -, or a sentence in quotes is expected" in missing
    unknown = live.error("policy", "grant", "add", "Key x may stake a lot.")
    assert unknown == 'No key is called "x"'
    typed = "Agent demo-agent may swap up to 1 SOL a dy."
    assert '"dy" is not understood, in "dy."; did you mean "day"?' in live.error(
        "policy", "grant", "add", typed
    )
    for text in ("Agent demo-agent can swap.", "Agent demo-agent may swap", "  "):
        error = live.error("policy", "grant", "add", text)
        assert "lacks an amount" in error or "is expected" in error


def test_replay_lists_what_a_draft_would_have_changed(live: Live) -> None:
    name, secret = live.asker()
    wallet = live.wallet()
    live.run("wallet", "transfer", wallet, STRANGER, "0.05", SOLWARD_API_KEY=secret)
    read = json.dumps({"readOnly": [f"key:{name}"]})
    printed = live.run("policy", "replay", "-", "--days", "1", given=read)
    assert "allowed   refused  " in printed
    assert paid(live, wallet)["id"][:8] in printed
    assert " judged, 0 decided differently." in live.run("policy", "replay")


@pytest.mark.more
def test_a_held_payment_says_so_exits_with_3_and_is_paid_once_it_is_approved(live: Live) -> None:
    wallet = live.wallet()
    _, secret = live.asker()
    asked = ("wallet", "transfer", wallet, STRANGER, "0.3", "--idempotency-key", "pay-3")
    result = live.invoke(*asked, SOLWARD_API_KEY=secret)
    assert (result.exit_code, result.stdout) == (EXIT_HELD, "")
    assert result.stderr.startswith("Held, nothing was sent: ")
    (hold,) = (each["id"] for each in live.json("hold", "list", "--wallet", wallet)["holds"])
    assert f"solward hold approve {hold}" in result.stderr
    as_json = live.invoke(*asked, "--json", SOLWARD_API_KEY=secret)
    assert as_json.exit_code == EXIT_HELD
    assert json.loads(as_json.stdout)["holdId"] == hold
    # All of it is shown before the question.
    for given in ("n\n", ""):
        result = live.invoke("hold", "approve", hold[:8], given=given)
        assert (result.exit_code, "Approve this?" in result.stderr) == (1, True)
        whole = "".join(result.stdout.split())
        for each in (hold, STRANGER, f"transfer0.3SOLto{STRANGER}", "Costsatmost0.0000"):
            assert each in whole
        assert paid(live, wallet)["type"] == "airdrop"
    result = live.invoke("hold", "approve", hold, "--note", "as agreed", given="y\n")
    assert (result.exit_code, "executed" in result.stdout) == (0, True)
    record = paid(live, wallet)
    assert (record["status"], record["details"]["amount"]) == ("confirmed", 0.3)
    assert record["id"] in live.run(*asked, SOLWARD_API_KEY=secret)
    assert live.json("hold", "show", hold)["note"] == "as agreed"


def test_who_asks_does_not_approve_and_a_denial_ends_it(live: Live) -> None:
    wallet = live.wallet()
    _, secret = live.asker()
    live.invoke("wallet", "transfer", wallet, STRANGER, "0.3", SOLWARD_API_KEY=secret)
    (hold,) = (each["id"] for each in live.json("hold", "list", "--wallet", wallet)["holds"])
    refused = live.error("hold", "approve", hold, "--yes", SOLWARD_API_KEY=secret)
    assert refused == "The principal that asked for a transaction may not approve it"
    assert hold[:8] in live.run("hold", "list", "--wallet", wallet, SOLWARD_API_KEY=secret)
    live.run("hold", "deny", hold)
    assert "denied" in live.error("hold", "approve", hold, "--yes")
    assert live.run("hold", "list", "--wallet", wallet).strip() == "Nothing waits for a person."
    assert "denied" in live.run("hold", "list", "--wallet", wallet, "--all")
    assert paid(live, wallet)["status"] == "blocked"


def test_what_is_refused_when_it_is_judged_again_says_why(live: Live) -> None:
    wallet = live.wallet()
    name, secret = live.asker()
    live.invoke("wallet", "transfer", wallet, STRANGER, "0.3", SOLWARD_API_KEY=secret)
    (hold,) = (each["id"] for each in live.json("hold", "list", "--wallet", wallet)["holds"])
    live.run("key", "revoke", name, "--yes")
    approved = live.invoke("hold", "approve", hold, "--yes")
    assert (approved.exit_code, "second check" in approved.stderr) == (1, True)
    for printed in (approved.stdout, live.run("hold", "show", hold)):
        assert re.search(r"^Refused +.*: Invalid API key$", printed, re.MULTILINE), printed


@pytest.mark.more
@promise("wallet-ceilings-bind-everybody")
def test_ceilings_of_a_wallet_are_set_and_lifted(live: Live) -> None:
    wallet = live.wallet()
    given = ("--max-sol-per-transaction", "0.05", "--max-transactions-per-minute", "3")
    printed = " ".join(live.run("wallet", "ceilings", wallet, *given).split())
    assert "Ceilings of this wallet: Most SOL in a transaction, Most transactions" in printed
    refused = live.invoke("wallet", "transfer", wallet, STRANGER, "0.051")
    assert refused.exit_code == 1
    assert "(the wallet's ceiling maxSolPerTransaction)" in " ".join(refused.stderr.split())
    shown = live.json("wallet", "ceilings", wallet, "--lift", "max-sol-per-transaction")
    assert shown["ceilings"] == {"maxTransactionsPerMinute": 3}
    above = live.invoke("wallet", "ceilings", wallet, "--max-costs-sol-per-day", "1000000")
    assert "maxCostsSolPerDay must be at most" in " ".join(above.stderr.split())
    assert live.invoke("wallet", "ceilings", wallet).exit_code == 2


@pytest.mark.more
def test_limits_say_grants_what_is_left_and_what_can_leave_today(live: Live) -> None:
    name, secret = live.asker()
    wallet = live.wallet()
    live.run("wallet", "transfer", wallet, STRANGER, "0.05", SOLWARD_API_KEY=secret)
    printed = " ".join(live.run("wallet", "limits", wallet).split())
    assert f"1. Key {name} may transfer up to 10 SOL a day, to anybody; above 0.1 SOL" in printed
    assert "9.95 of 10 SOL left in 24 hours" in printed
    assert "What can leave this wallet today" in printed
    limits = live.json("wallet", "limits", wallet)
    assert limits["canLeave"]["sentence"] in printed
    assert Decimal(limits["canLeave"]["assets"]["SOL"]["most"]) > 0
