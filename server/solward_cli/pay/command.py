"""`solward pay curl|list|show`: pay for requests over HTTP, and read what was paid for."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from solward.resources.payments import ListedPayments, PaidRequest
from solward_cli.completed_names import wallet_names
from solward_cli.declared import request_options, sent
from solward_cli.service_call import (
    ServiceCall,
    limit_option,
    service_call,
    tell_error,
    tell_held,
    waiting,
)

if TYPE_CHECKING:
    from rich.console import RenderableType

    from solward.client import PaidAnswer, Wallet
    from solward.resources.payments import StoredPayment

EXIT_REFUSED = 3
EXIT_HELD = 4
EXIT_NOT_SERVED = 5
EXIT_UNDECIDED = 6

_PAGE = 500
_FORM = "application/x-www-form-urlencoded"


@click.group()
def pay() -> None:
    """Requests over HTTP that a wallet pays for."""


@pay.command()
@click.argument("address", metavar="URL")
@request_options(PaidRequest, without=("url", "method", "headers", "body", "max"))
@click.option("--max", required=True, help='The most to pay, such as "0.05 USDC".')
@click.option("-X", "--request", "method", help="Method of the request.  [default: GET]")
@click.option("-H", "--header", "headers", multiple=True, help="A header, `Name: value`.")
@click.option(
    "-d", "--data", "body", help="Body, sent with POST; @FILE reads a file, @- standard input."
)
@click.option(
    "--wallet",
    shell_complete=wallet_names,
    help="The wallet that pays; not needed where there is one.",
)
@click.option("--idempotency-key", "key", help="Pay once under this key, however often it is sent.")
@service_call
async def curl(
    call: ServiceCall,
    address: str,
    wallet: str | None,
    dry_run: bool,
    key: str | None,
    **request: Any,
) -> RenderableType | None:
    """Request URL, and pay for it where its site asks for that, at most --max.

    \b
    The body goes to standard output, what was paid to standard error. Exit codes:
    0 served, 1 not served and nothing paid, 3 refused, 4 held: a person is asked,
    5 paid and not served, 6 undecided: look again with --idempotency-key.
    """
    from solward.client import BadRequest, ClientError, Held, Refused
    from solward_cli.pay.render import render_quote

    body, headers = _data(request["body"]), _headers(request["headers"])
    if body is not None and "content-type" not in map(str.lower, headers):
        headers["Content-Type"] = _FORM
    method = request["method"] or ("GET" if body is None else "POST")
    request |= {"url": address, "method": method, "headers": headers, "body": body}
    paying = await _wallet(call, wallet)
    wallets = call.client.wallets
    try:
        with waiting("Requesting"):
            if dry_run:
                quote = await wallets.quote_payment(paying.id, **request)
                refused = EXIT_HELD if quote.held else EXIT_REFUSED
                call.exit_code = 0 if quote.allowed else refused
                return render_quote(quote)
            answer = await wallets.pay(paying.id, idempotency_key=key, **request)
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
    _print_answer(answer)
    if call.as_json:
        click.echo(call.json_text())
    else:
        _write(answer.body)
    return None


@pay.command("list")
@request_options(ListedPayments, without=("limit",))
@limit_option
@service_call
async def listing(call: ServiceCall, **only: Any) -> RenderableType:
    """List what was paid for, newest first."""
    from solward_cli.pay.render import render_payments

    asked = await sent(call, ListedPayments, only)
    return render_payments(await call.client.payments.list(**asked))


@pay.command()
@click.argument("payment", metavar="PAYMENT")
@service_call
async def show(call: ServiceCall, payment: str) -> RenderableType:
    """Show PAYMENT, by its id or the beginning of it, and what its site answered."""
    from solward_cli.pay.render import render_payment

    return render_payment(await _find(call, payment))


def exit_code(answer: PaidAnswer) -> int:
    """What the command ends with: whether the site served, and whether it was paid."""
    payment = answer.payment
    if 200 <= answer.status < 300:
        return 0
    if payment is None:
        return 1
    if payment.status == "pending":
        return EXIT_UNDECIDED
    return EXIT_NOT_SERVED if payment.status == "confirmed" else EXIT_REFUSED


async def _wallet(call: ServiceCall, named: str | None) -> Wallet:
    from solward.types.errors import InvalidRequest

    if named is not None:
        return await call.wallet(named)
    wallets = await call.client.wallets.list()
    if len(wallets) != 1:
        raise InvalidRequest(
            f"--wallet is required where there is not one wallet alone; there are {len(wallets)}"
        )
    return wallets[0]


async def _find(call: ServiceCall, name: str) -> StoredPayment:
    """The payment of this id, or of the beginning of one of the newest."""
    from solward.client import AmbiguousName, NotFoundError
    from solward.client.wallets import MIN_ID_PREFIX

    try:
        return await call.client.payments.get(name)
    except NotFoundError:
        if len(name) < MIN_ID_PREFIX:
            raise
    found = await call.client.payments.list(limit=_PAGE)
    fits = [each for each in found if each.id.startswith(name)]
    if len(fits) > 1:
        raise AmbiguousName(f"{len(fits)} payments begin with {name!r}; give more of it")
    if not fits:
        raise NotFoundError(404, f"No payment has the id {name!r}")
    return await call.client.payments.get(fits[0].id)


def _headers(texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, colon, value = text.partition(":")
        if not colon or not name.strip():
            raise click.BadParameter(f"{text!r} is not `Name: value`", param_hint="-H")
        found[name.strip()] = value.strip()
    return found


def _data(text: str | None) -> str | None:
    if text is None or not text.startswith("@"):
        return text
    try:
        with click.open_file(text[1:], encoding="utf-8") as file:
            return str(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{text[1:]}: {_why(error)}", param_hint="-d") from None


def _why(error: OSError | UnicodeDecodeError) -> str:
    return (
        "it is no text" if isinstance(error, UnicodeDecodeError) else error.strerror or str(error)
    )


def _print_answer(answer: PaidAnswer) -> None:
    """What was paid and what was answered, on standard error: standard output is the body's."""
    from solward_cli.pay.render import line
    from solward_cli.render import visible

    click.echo(visible(line(answer)), err=True)
    if answer.truncated:
        click.echo("The body is longer; this is the first MiB of it.", err=True)


def _write(body: bytes) -> None:
    """The body as it came; on a terminal its control characters are written out."""
    from solward_cli.render import visible

    if is_terminal():
        click.echo(visible(body.decode(errors="replace"), lines=True))
    else:
        click.echo(body, nl=False)


def is_terminal() -> bool:
    """Whether standard output is one."""
    return sys.stdout.isatty()
