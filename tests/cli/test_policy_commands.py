"""`solward policy` and `solward hold`: what is asked before it is granted or paid, and by whom."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import pytest
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
        result = live.invoke("policy", "add", says, given=given)
        assert (result.exit_code, "Grant this?" in result.stderr) == (1, True)
        assert f"+ {says}" in " ".join(result.stdout.split())
        assert says not in sentences(live)
    result = live.invoke("policy", "add", says, given="y\n")
    assert (result.exit_code, says in sentences(live)) == (0, True)
    # A second one beside it.
    more = says.replace("transfer", "stake").replace(", to anybody", "")
    live.run("policy", "add", more, "--yes")
    assert {says, more} <= {*sentences(live)}


def test_json_of_add_is_one_answer_and_the_question_is_beside_it(live: Live) -> None:
    says = f"Key {live.key()} may transfer up to 1 SOL a day, to anybody."
    result = live.invoke("policy", "add", says, "--json", given="y\n")
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
    live.run("policy", "add", "-", "--yes", given=json.dumps(new))
    assert f"Key {pays} may transfer up to 0.5 SOL an hour, to @shops." in sentences(live)
    assert f"Key {reads} may only read." in sentences(live)
    assert live.get("/policy")["policy"]["book"]["shops"] == [STRANGER]
    # Somebody who only read is granted something.
    live.run("policy", "add", f"Key {reads} may stake up to 1 SOL a day.", "--yes")
    assert f"Key {reads} may only read." not in sentences(live)
    stale = json.dumps({**new, "version": live.get("/policy")["policy"]["version"] + 1})
    refused = live.invoke("policy", "add", "-", "--yes", given=stale)
    assert refused.exit_code == 1
    assert "is in force" in refused.stderr
    # To read alone is less than before, so nobody is asked.
    other = json.dumps({"readOnly": [f"key:{live.key()}"]})
    live.run("policy", "add", "-", given=other)


def test_a_grant_is_removed_by_its_number_and_the_last_leaves_who_only_reads(live: Live) -> None:
    key = live.key()
    stakes = f"Key {key} may stake up to 1 SOL a day."
    wraps = f"Key {key} may wrap up to 1 SOL a day."
    for each in (stakes, wraps):
        live.run("policy", "add", each, "--yes")
    assert live.error("policy", "remove", f"key:{key}", "3") == f"key:{key} has 2 grants"
    live.run("policy", "remove", f"key:{key}", "1")
    assert (stakes in sentences(live), wraps in sentences(live)) == (False, True)
    live.run("policy", "remove", f"key:{key}", "1")
    assert f"Key {key} may only read." in sentences(live)
    # Out of grants is more than none.
    result = live.invoke("policy", "remove", f"key:{key}", "--all", given="n\n")
    assert (result.exit_code, f"Key {key} may only read." in sentences(live)) == (1, True)
    live.run("policy", "remove", f"key:{key}", "--all", "--yes")
    assert f"Key {key} may only read." not in sentences(live)
    assert live.invoke("policy", "remove", f"key:{key}").exit_code == 2


def test_paying_sites_is_granted_by_sentences_and_a_site_without_a_grant_is_not_paid(
    live: Live,
) -> None:
    key = live.key()
    pays = f"Key {key} may pay up to 0.05 SOL at once and 1 a day, to anybody, through "
    pays += "127.0.0.1:4021 or api.example.com."
    site = "Site ads.example.com may be paid up to 1 SOL a day."
    for each in (pays, site):
        live.run("policy", "add", each, "--yes")
    assert {pays, site} <= {*sentences(live)}
    live.run("policy", "remove", "site:ads.example.com", "1")
    assert "Site ads.example.com may not be paid." in sentences(live)
    result = live.invoke("policy", "remove", "site:ads.example.com", "--all", given="n\n")
    asks = "Let site:ads.example.com be paid all that grants of others allow?"
    assert (result.exit_code, asks in result.stderr) == (1, True)
    live.run("policy", "remove", "site:ads.example.com", "--all", "--yes")
    assert not any("ads.example.com" in each for each in sentences(live))
    capitals = pays.replace("api.example.com", "API.example.com")
    refused = live.error("policy", "add", capitals, "--yes")
    assert refused.startswith("grants[0].via[1]: a host in lower case and ASCII")


def test_check_says_what_is_not_in_force_and_changes_nothing(live: Live) -> None:
    live.run("policy", "add", f"Key {live.key()} may stake up to 1 SOL a day.", "--yes")
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
        for command in ("add", "check", "replay"):
            assert live.error("policy", command, str(file)).startswith(error)
    missing = live.error("policy", "check", str(live.home / "none.json"))
    assert "a JSON file, -, or a sentence in quotes is expected" in missing
    assert "is expected, not" in live.error("policy", "add", "Key x may stake a lot.")
    typed = "Agent demo-agent may swap up to 1 SOL a dy."
    assert 'understood: "dy", did you mean "day"?' in live.error("policy", "add", typed)
    for text in ("Agent demo-agent can swap.", "Agent demo-agent may swap", "  "):
        assert "is expected" in live.error("policy", "add", text)


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
