"""`solward pay`: its exit codes, what goes where, and what it asks of the service."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from tests.promises import promise
from tests.support.cli import Live
from tests.support.http import Handler, served_in_thread

from solward.support import jsontext
from solward_cli import pay

URL = "https://api.example.com/report"
MAX = ("--max", "0.05 USDC")
PAYEE = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
PAYMENT: dict[str, Any] = {
    "id": "5b0c1a2e-7d64-4f5b-9a0e-1f6d2c3b4a59",
    "walletId": "w1",
    "status": "confirmed",
    "state": "landed",
    "served": "yes",
    "protocol": "x402",
    "mode": "sponsored",
    "site": "api.example.com",
    "url": URL,
    "method": "GET",
    "asset": "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
    "symbol": "USDC",
    "amount": Decimal("0.01"),
    "payTo": PAYEE,
    "signature": "5" * 88,
    "timestamp": "2026-11-21T10:34:55.395Z",
}
HELD = {
    "status": "held",
    "holdId": "3f0e8a52-7a5c-4c0b-9d1e-5a0c6d2f4b18",
    "sentence": "Key ci asks to pay 0.01 USDC to api.example.com.",
    "approveAt": "http://127.0.0.1:3000/holds/3f0e8a52",
    "expiresAt": "2026-11-21T11:34:55.814Z",
}


def wallet(name: str) -> dict[str, Any]:
    made = "2026-11-21T10:00:00.000Z"
    return {"id": f"{name}-id", "name": name, "publicKey": PAYEE, "tags": [], "createdAt": made}


def answered(
    code: int | None = 200, body: str | bytes = "42", /, **payment: Any
) -> tuple[int, dict[str, Any]]:
    """What the service answers: the site's answer, None for none, and a payment."""
    response = None
    if code is not None:
        response = {"status": code, "headers": {"content-type": "text/plain"}}
        if isinstance(body, bytes):
            response["bodyBase64"] = base64.b64encode(body).decode()
        else:
            response["body"] = body
        response["truncated"] = False
    return 200, {"response": response, "payment": PAYMENT | payment if payment else None}


@dataclass
class Scripted:
    """A service with scripted answers.

    Attributes:
        answers: path and query -> status and JSON.
        headers: of every answer.
        asked: method and path, JSON, and Idempotency-Key of each request that was no GET.
    """

    url: str
    home: Path
    answers: dict[str, tuple[int, Any]] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, Any, str | None]] = field(default_factory=list)

    def run(self, *arguments: str, **options: Any) -> Result:
        return Live(self.url, self.home).invoke("pay", *arguments, **options)

    def curl(self, *arguments: str, **options: Any) -> Result:
        return self.run("curl", URL, *MAX, *arguments, **options)

    def pays(self, answer: tuple[int, Any]) -> None:
        self.answers["/wallets/pocket-id/pay"] = answer


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Scripted]:
    class Serving(Handler):
        def get(self) -> None:
            body = self.body()
            path = self.path.removeprefix("/api/v1")
            if self.command != "GET":
                key = self.headers.get("Idempotency-Key")
                made.asked.append((f"{self.command} {path}", jsontext.loads(body), key))
            status, answer = made.answers.get(path, (404, {"error": "Payment not found"}))
            text = jsontext.dumps(answer).encode()
            own = {"Content-Type": "application/json", "Solward-Api": "v1"}
            self.reply(status, text, own | made.headers)

    with served_in_thread(Serving) as url:
        made = Scripted(url, tmp_path)
        made.answers["/wallets?createdBy=true"] = (200, {"wallets": [wallet("pocket")]})
        yield made


def test_the_body_goes_to_standard_output_and_what_was_paid_to_the_other(
    service: Scripted,
) -> None:
    service.pays(answered(200, "42\n", served="yes"))
    result = service.curl()
    assert (result.exit_code, result.stdout) == (0, "42\n")
    assert result.stderr == (
        f"Status 200, served: yes. Paid 0.01 USDC to {PAYEE} by x402,"
        f" payment {PAYMENT['id']}, signature {'5' * 88}\n"
    )


def test_a_body_that_is_no_text_comes_as_it_was(service: Scripted) -> None:
    body = bytes(range(256))
    service.pays(answered(200, body, served="yes"))
    assert service.curl().stdout_bytes == body


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        (answered(200), 0, "Status 200; nothing was paid."),
        (answered(204, "", status="pending", state="handed_over"), 0, "Handed over, not on the"),
        (answered(404), 1, "Status 404; nothing was paid."),
        ((400, {"error": "No offer fits (price_above_max)"}), 3, "Error: No offer fits"),
        ((500, {"error": "Transaction blocked by guardrail grants: no"}), 3, "guardrail grants"),
        (answered(402, status="failed", state="expired", served="no"), 3, "Not paid: 0.01 USDC"),
        ((202, HELD), 4, "Held, nothing was sent: Key ci asks to pay 0.01 USDC"),
        (answered(500, served="no"), 5, "Status 500, served: no. Paid 0.01 USDC"),
        (answered(None, served="unknown"), 5, "No answer came, served: unknown. Paid"),
        (answered(402, status="pending", state="handed_over", served="no"), 6, "Handed over"),
        (answered(None, status="pending", state="handed_over", served="unknown"), 6, "No answer"),
        ((503, {"error": "Starting"}), 6, "Error: Starting"),
        ((504, "<html>"), 6, "Ask again with --idempotency-key"),
        ((403, "<html>"), 6, "Ask again with --idempotency-key"),
        ((200, {}), 6, "Ask again with --idempotency-key"),
        ((202, {}), 6, "Ask again with --idempotency-key"),
    ],
    ids=[
        "free",
        "served-and-pending",
        "free-and-not-found",
        "no-offer",
        "blocked",
        "failed",
        "held",
        "paid-and-not-served",
        "paid-without-an-answer",
        "refused-and-undecided",
        "no-answer-and-undecided",
        "service-lost",
        "gateway-late",
        "gateway-refuses",
        "another-answer",
        "another-hold",
    ],
)
def test_the_exit_code_says_whether_it_was_served_and_paid(
    service: Scripted, answer: tuple[int, Any], code: int, says: str
) -> None:
    service.pays(answer)
    result = service.curl()
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert result.stdout in ("", "42")


def test_what_is_held_is_asked_for_again_by_its_key(service: Scripted) -> None:
    service.pays((202, HELD))
    result = service.curl()
    [(_, _, key)] = service.asked
    assert f"solward hold approve {HELD['holdId']}" in result.stderr
    assert f"ask again with --idempotency-key {key}\n" in result.stderr
    service.pays(answered(served="yes"))
    assert service.curl("--idempotency-key", str(key)).exit_code == 0
    assert service.asked[1][2] == key


def test_the_request_is_the_one_of_the_options(service: Scripted) -> None:
    service.pays(answered())
    service.curl()
    service.curl(
        *("-X", "PUT", "-H", "Accept: text/plain", "-H", "content-type: text/csv", "-d", "a,b"),
        *("--protocol", "mpp", "--wallet", "pocket", "--idempotency-key", "k1"),
    )
    plain, full = service.asked
    path = "POST /wallets/pocket-id/pay"
    assert plain[:2] == (path, {"url": URL, "method": "GET", "headers": {}, "max": "0.05 USDC"})
    assert full == (
        path,
        {
            "url": URL,
            "method": "PUT",
            "headers": {"Accept": "text/plain", "content-type": "text/csv"},
            "body": "a,b",
            "max": "0.05 USDC",
            "protocol": "mpp",
        },
        "k1",
    )


def test_data_makes_a_post_and_may_come_from_a_file_or_a_pipe(
    service: Scripted, tmp_path: Path
) -> None:
    service.pays(answered())
    (tmp_path / "question").write_text("what?")
    service.curl("-d", f"@{tmp_path}/question")
    service.curl("-d", "@-", given="why?")
    sent = [(body["method"], body["body"], body["headers"]) for _, body, _ in service.asked]
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert sent == [("POST", "what?", form), ("POST", "why?", form)]


@pytest.mark.parametrize(
    "arguments", [("-H", "Accept"), ("-d", "@/nowhere/at/all")], ids=["header", "file"]
)
def test_what_cannot_be_sent_is_a_usage_error(
    service: Scripted, arguments: tuple[str, ...]
) -> None:
    result = service.curl(*arguments)
    assert (result.exit_code, result.stdout, service.asked) == (2, "", [])
    assert f"Invalid value for '{arguments[0]}'" in result.stderr


def test_the_most_to_pay_must_be_said(service: Scripted) -> None:
    result = service.run("curl", URL)
    assert result.exit_code == 2
    assert "--max" in result.stderr


def test_of_several_wallets_one_must_be_named(service: Scripted) -> None:
    many = {"wallets": [wallet("pocket"), wallet("till")]}
    service.answers["/wallets?createdBy=true"] = (200, many)
    result = service.curl()
    assert (result.exit_code, service.asked) == (1, [])
    assert "--wallet is required" in result.stderr
    service.pays(answered())
    assert service.curl("--wallet", "pocket").exit_code == 0


def test_json_is_the_services_answer_whole(service: Scripted) -> None:
    service.pays(answered(500, served="no"))
    result = service.curl("--json")
    assert result.exit_code == 5
    assert jsontext.loads(result.stdout) == answered(500, served="no")[1]


@promise("error-class-under-both")
@pytest.mark.parametrize("status", [403, 409, 422, 429, 502, 503])
def test_a_refusal_ends_alike_where_its_status_is_semantic(service: Scripted, status: int) -> None:
    service.headers["Solward-Contract-Status"] = "500"
    service.pays((status, {"error": "Transaction blocked by guardrail grants: no"}))
    result = service.curl()
    assert (result.exit_code, "guardrail grants" in result.stderr) == (3, True)


@pytest.mark.parametrize(
    ("judged", "code", "says"),
    [
        ({"allowed": True}, 0, "allowed"),
        ({"allowed": False, "rule": "grants", "reason": "No grant"}, 3, "No grant"),
        ({"allowed": False, "held": True, "reason": "Above 0.005 USDC"}, 4, "held: a person"),
    ],
    ids=["allowed", "refused", "held"],
)
def test_a_dry_run_says_what_it_would_pay(
    service: Scripted, judged: dict[str, Any], code: int, says: str
) -> None:
    offer = PAYMENT | {"amount": Decimal("0.01"), "description": "A report \x1b[2J"}
    trial = {"dryRun": True, "guardrailsApplied": [], "status": 402, "offer": offer} | judged
    service.answers["/wallets/pocket-id/pay?dryRun=true"] = (200, trial)
    result = service.curl("--dry-run")
    assert result.exit_code == code
    assert says in result.stdout
    assert f"0.01 USDC to {PAYEE}" in result.stdout
    assert "A report \\x1b[2J" in result.stdout


def test_a_dry_run_of_what_is_free_says_so(service: Scripted) -> None:
    judged = {"dryRun": True, "allowed": True, "guardrailsApplied": []}
    trial = judged | {"status": 200, "offer": None}
    service.answers["/wallets/pocket-id/pay?dryRun=true"] = (200, trial)
    result = service.curl("--dry-run")
    assert result.exit_code == 0
    assert "none is asked for" in result.stdout


def test_payments_are_listed_and_one_is_shown_with_what_was_answered(service: Scripted) -> None:
    failed = PAYMENT | {"id": "9c1d", "status": "failed", "served": "no", "error": "It expired"}
    listed = {"payments": [failed, PAYMENT]}
    service.answers["/payments"] = (200, listed)
    service.answers["/payments?walletId=pocket-id&limit=1&before=9c1d"] = (200, {"payments": []})
    service.answers["/payments?limit=500"] = (200, listed)
    shown = answered(200, "words \x1b]0;title\x07", served="yes")
    service.answers[f"/payments/{PAYMENT['id']}"] = shown
    text = service.run("list").stdout
    assert "api.example.com" in text
    assert "0.01 USDC" in text
    assert "failed" in text
    none = service.run("list", "--wallet", "pocket", "--limit", "1", "--before", "9c1d")
    assert none.stdout == "There are no payments yet.\n"
    for name in (PAYMENT["id"], PAYMENT["id"][:6]):
        text = service.run("show", name).stdout
        assert "status 200" in text
        assert "content-type: text/plain" in text
        assert "words \\x1b]0;title\\x07" in text
    assert "No payment has the id 'abcd1'" in service.run("show", "abcd1").stderr
    assert service.run("show", "abcd1").exit_code == 1


def test_a_terminal_gets_no_control_characters_of_a_site(
    service: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.pays(answered(200, "words\n\x1b]0;title\x07", served="yes"))
    monkeypatch.setattr(pay, "is_terminal", lambda: True)
    assert service.curl().stdout == "words\n\\x1b]0;title\\x07\n"
