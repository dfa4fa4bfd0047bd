"""`solward pay curl|list|show`: pay for requests over HTTP, and read what was paid for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from solward.resources.payments import GET_PAYMENT, LIST_PAYMENTS, PaidRequest
from solward.types.errors import InvalidRequest
from solward_cli.declared import asks, lists, request_options
from solward_cli.named import WALLET_ID
from solward_cli.render import Output, amount, answer_fields, is_terminal, short, verdict, visible
from solward_cli.service_call import ServiceCall, service_call, tell_error, tell_held, waiting

if TYPE_CHECKING:
    from solward.client import PaidAnswer, PaymentQuote
    from solward.resources.payments import PaymentTerms, StoredPayment

EXIT_REFUSED = 3
EXIT_HELD = 4
EXIT_NOT_SERVED = 5
EXIT_UNDECIDED = 6

_FORM = "application/x-www-form-urlencoded"
_MOST_TEXT = 10_000


@click.group()
def pay() -> None:
    """Pay for requests over HTTP."""


def _read_headers(_context: click.Context, _option: click.Parameter, texts: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(f"{text!r} is not `Name: value`")
        found[name.strip()] = value.strip()
    return found


def _read_body(_context: click.Context, _option: click.Parameter, text: str | None) -> str | None:
    if text is None or not text.startswith("@"):
        return text
    try:
        with click.open_file(text[1:], encoding="utf-8") as file:
            return str(file.read())
    except UnicodeDecodeError:
        raise click.BadParameter(f"{text[1:]}: it is not UTF-8 text") from None
    except OSError as error:
        raise click.BadParameter(f"{text[1:]}: {error.strerror or error}") from None


@pay.command()
@click.argument("address", metavar="URL")
@request_options(PaidRequest, without=("url", "method", "headers", "body", "max"))
@click.option("--max", required=True, help='The most to pay, such as "0.05 USDC".')
@click.option("-X", "--request", "method", help="Method of the request.  [default: GET]")
@click.option(
    "-H", "--header", "headers", multiple=True, callback=_read_headers, help="As `Name: value`."
)
@click.option(
    "-d",
    "--data",
    "body",
    callback=_read_body,
    help="Body; sent with POST unless -X is given. @FILE reads a file, @- standard input.",
)
@click.option(
    "--wallet",
    "wallet_id",
    type=WALLET_ID,
    help="The wallet that pays; needed if there are several.",
)
@click.option("--idempotency-key", "key", help="Pay at most once under this key, even if repeated.")
@service_call
async def curl(
    call: ServiceCall,
    address: str,
    wallet_id: str | None,
    dry_run: bool,
    key: str | None,
    **request: Any,
) -> Output | None:
    """Request URL, and pay at most --max if the site asks for a payment.

    \b
    The body goes to standard output, the payment to standard error. Exit codes:
    0 served, 1 not served and nothing paid, 3 refused, 4 held: a person is asked,
    5 paid and not served, 6 not known yet: repeat it with --idempotency-key.
    """
    from solward.client import BadRequest, ClientError, Held, Refused

    request["url"] = address
    if request["body"] is not None:
        request["method"] = request["method"] or "POST"
        if "content-type" not in map(str.lower, request["headers"]):
            request["headers"]["Content-Type"] = _FORM
    request["method"] = request["method"] or "GET"
    wallets = call.client.wallets
    if wallet_id is None:
        found = await wallets.list()
        if len(found) != 1:
            raise InvalidRequest(
                f"--wallet is required unless there is exactly one wallet; there are {len(found)}"
            )
        wallet_id = found[0].id
    try:
        with waiting("Requesting"):
            if dry_run:
                quote = await wallets.quote_payment(wallet_id, **request)
                refused = EXIT_HELD if quote.held else EXIT_REFUSED
                call.exit_code = 0 if quote.allowed else refused
                return render_quote(quote)
            answer = await wallets.pay(wallet_id, idempotency_key=key, **request)
    except Held as held:
        tell_held(held, call.as_json)
        call.exit_code = EXIT_HELD
        return None
    except ClientError as error:
        is_decided = error.idempotency_key is None
        if is_decided and not isinstance(error, BadRequest | Refused):
            raise
        tell_error(error)
        call.exit_code = EXIT_REFUSED if is_decided else EXIT_UNDECIDED
        return None
    call.exit_code = exit_code(answer)
    # Standard output carries only the body.
    click.echo(visible(result_line(answer)), err=True)
    if answer.truncated:
        click.echo("Only the first MiB of the body is shown.", err=True)
    if call.as_json:
        click.echo(call.json_text())
    elif is_terminal():
        click.echo(visible(answer.body.decode(errors="replace"), lines=True))
    else:
        click.echo(answer.body, nl=False)
    return None


def exit_code(answer: PaidAnswer) -> int:
    """Return the exit code, which tells whether the site answered and whether it was paid."""
    payment = answer.payment
    if 200 <= answer.status < 300:
        return 0
    if payment is None:
        return 1
    if payment.status == "pending":
        return EXIT_UNDECIDED
    return EXIT_NOT_SERVED if payment.status == "confirmed" else EXIT_REFUSED


def render_payment(answer: StoredPayment) -> Output:
    """Render all fields of a payment, and the site's answer as text."""
    payment = answer.payment
    try:
        body = answer.body.decode()
    except UnicodeDecodeError:
        body = f"{len(answer.body):,} bytes that are not text"
    if len(body) > _MOST_TEXT:
        body = f"{body[:_MOST_TEXT]}… ({len(answer.body):,} bytes)"
    return answer_fields(
        payment,
        "id",
        ("Request", f"{payment.method} {payment.url}"),
        ("amount", price(payment)),
        *("asset", "pay_to", "status", "state", "served", "error", "signature", "protocol"),
        *("mode", "timestamp", "wallet_id"),
        ("Answered", f"status {answer.status}" if answer.status else "no answer came"),
        ("Headers", "\n".join(": ".join(each) for each in answer.headers.items()) or None),
        ("Body", body or None),
    )


def render_quote(quote: PaymentQuote) -> Output:
    """Render the payment that would be made, and whether it is allowed."""
    offer = quote.offer
    return answer_fields(
        quote,
        ("Dry run", verdict(quote.allowed, quote.held)),
        *("rule", "reason"),
        ("Answered", f"status {quote.status} to the request without a payment"),
        ("Price", f"{price(offer)} to {offer.pay_to}" if offer else "none is asked for"),
        ("Protocol", offer and offer.protocol),
        ("Mode", offer and offer.mode),
        ("Sold", offer and offer.description),
    )


def result_line(answer: PaidAnswer) -> str:
    """Describe on one line the payment and its result."""
    payment = answer.payment
    answered = f"Status {answer.status}" if answer.status else "No answer came"
    if payment is None:
        return f"{answered}; nothing was paid."
    told = {
        "confirmed": "Paid",
        "pending": "Handed over, not on the ledger yet:",
    }.get(payment.status, "Not paid:")
    signature = "" if payment.signature is None else f", signature {payment.signature}"
    return (
        f"{answered}, served: {payment.served}. {told} {price(payment)} to"
        f" {payment.pay_to} by {payment.protocol}, payment {payment.id}{signature}"
    )


def price(payment: PaymentTerms) -> str:
    """Return the amount with its unit."""
    return f"{amount(payment.amount)} {payment.symbol or short(payment.asset)}"


lists(
    pay,
    LIST_PAYMENTS,
    "List payments, newest first.",
    *("timestamp", "id", "status", "served", (">PAID", price), "site"),
    empty="There are no payments yet.",
)
asks(
    pay,
    GET_PAYMENT,
    "Show a payment and the site's answer.",
    render_payment,
    name="show",
)
