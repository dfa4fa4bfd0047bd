"""MPP, the Machine Payments Protocol: intent `charge` of the method `solana`.

The offer is in `WWW-Authenticate: Payment`, where HTTP allows several schemes and several offers.
With a sponsor, the seller pays the network's fee. Otherwise the wallet pays it, and either sends
the transaction itself and gives the seller its signature, or gives the seller the transaction.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final

from solward import (
    HttpAnswer,
    InvalidRequest,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSpec,
    PaymentSplit,
    hookimpl,
    read_json,
    read_units,
    token_list,
)
from solward_plugins.payments.reading import (
    Object,
    address_of,
    cut_text,
    entry_or_problem,
    flag_of,
    header_of_json,
    integer_of,
    json_in_header,
    list_of,
    object_of,
    optional_text,
)

_CHALLENGE: Final = "WWW-Authenticate"
_CREDENTIAL: Final = "Authorization"
_RECEIPT: Final = "Payment-Receipt"
_SCHEME: Final = "payment"
_METHOD: Final = "solana"
_INTENT: Final = "charge"
_NETWORKS: Final = ("mainnet-beta", "devnet", "localnet")
# The network of an offer that names none, and the network whose mints a localnet's symbols have.
_MAINNET: Final = "mainnet-beta"
# solana-pay-kit's sellers use this name for mainnet; those of @solana/mpp use Solana's own.
_MAINNET_OF_PAY_KIT: Final = "mainnet"
_SYMBOLS: Final = frozenset({"PYUSD", "USDC", "USDT"})

# Bounds that the sellers check.
_MOST_COMPUTE_UNITS: Final = 200_000
_MOST_UNIT_PRICE: Final = 5_000_000
_MOST_MEMO_BYTES: Final = 566
_MOST_SPLITS: Final = 8

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TOKEN68: Final = re.compile(r"[A-Za-z0-9._~+/-]+=*(?=[ \t]*(?:,|$))")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))")
_SPACE: Final = re.compile(r"[ \t]*")
_GAP: Final = re.compile(r"[ \t,]*")
_END: Final = re.compile(r"[ \t]*(?:,|$)")
_NAMES_PAYMENT: Final = re.compile(r"(?:^|[\s,])payment(?:\s|$)", re.IGNORECASE)
_HEADER_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,63}")
_INSTANT: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)", re.ASCII
)


@hookimpl
def payment_spec() -> PaymentSpec:
    """Declare the protocol's name; it needs no settings."""
    return PaymentSpec("mpp")


@hookimpl
async def payment_offers(answer: HttpAnswer) -> list[PaymentOffer | InvalidRequest]:
    """Return the charges on Solana among the challenges."""
    if answer.status != HTTPStatus.PAYMENT_REQUIRED:
        return []
    found: list[PaymentOffer | InvalidRequest | None] = []
    for header in answer.all_headers(_CHALLENGE):
        if not _NAMES_PAYMENT.search(header):
            continue
        try:
            for scheme, parameters in _parse_challenges(header):
                if scheme.lower() == _SCHEME:
                    found.append(entry_or_problem(_parse_charge, parameters))
        except InvalidRequest as problem:
            # The header is malformed from here on; the challenges before were read completely.
            found.append(problem)
    return [each for each in found if each is not None]


@hookimpl
async def payment_headers(offer: PaymentOffer, proof: PaymentProof) -> dict[str, str]:
    """Return the header with the unchanged challenge and the transaction or its signature."""
    challenge: Object = offer.raw["challenge"]
    if proof.mode is PaymentMode.PUSH:
        payload = {"signature": proof.signature, "type": "signature"}
    else:
        wire = base64.b64encode(proof.wire or b"").decode()
        payload = {"transaction": wire, "type": "transaction"}
    credential = header_of_json({"challenge": challenge, "payload": payload}, url=True)
    return {challenge.get("header", _CREDENTIAL): f"Payment {credential}"}


@hookimpl
async def payment_receipt(answer: HttpAnswer) -> PaymentReceipt | None:
    """Return the transaction that the seller accepted, or the problem that it describes."""
    header = answer.header(_RECEIPT)
    if header is not None:
        receipt = json_in_header(header, _RECEIPT, url=True)
        reason = None if receipt.get("status") == "success" else "the seller reports a failure"
        return PaymentReceipt(cut_text(receipt.get("reference")) or None, reason)
    kind = (answer.header("Content-Type") or "").partition(";")[0].strip().lower()
    if answer.status < 400 or kind != "application/problem+json":
        return None
    problem = object_of(read_json(answer.body, "body"), "body")
    reason = cut_text(problem.get("detail")) or cut_text(problem.get("title"))
    return PaymentReceipt(None, reason or None)


def _parse_charge(challenge: dict[str, str]) -> PaymentOffer | None:
    """Return a charge; None if it is not on Solana or needs more than transfers with one memo."""
    if (challenge.get("method"), challenge.get("intent")) != (_METHOD, _INTENT):
        return None
    where = f"{_CHALLENGE}: request"
    for name in ("id", "realm", "request"):
        if not challenge.get(name):
            raise InvalidRequest(f"{_CHALLENGE}: {name} is required")
    if not _HEADER_NAME.fullmatch(challenge.get("header", _CREDENTIAL)):
        raise InvalidRequest(f"{_CHALLENGE}: header must be the name of a header")
    request = json_in_header(challenge["request"], where, url=True)
    details = object_of(request.get("methodDetails", {}), f"{where}.methodDetails")
    at = f"{where}.methodDetails"
    network = details.get("network", _MAINNET)
    if network == _MAINNET_OF_PAY_KIT:
        network = _MAINNET
    splits = _parse_splits(details, f"{at}.splits")
    if network not in _NETWORKS or any(memo for _, _, memo in splits):
        return None
    units = read_units(request.get("amount"), f"{where}.amount")
    if sum(split.units for split, _, _ in splits) >= units:
        raise InvalidRequest(f"{at}.splits must add up to less than amount")
    asset = _parse_asset(request.get("currency"), network, f"{where}.currency")
    opens_accounts = any(opens for _, opens, _ in splits)
    if opens_accounts and asset == "SOL":
        raise InvalidRequest(f"{at}.splits: ataCreationRequired must be false for SOL")
    decimals, program = details.get("decimals"), details.get("tokenProgram")
    sponsored = flag_of(details.get("feePayer"), f"{at}.feePayer")
    described = challenge.get("description") or request.get("description")
    return PaymentOffer(
        network=network,
        asset=asset,
        units=units,
        pay_to=address_of(request.get("recipient"), f"{where}.recipient"),
        modes=(
            (PaymentMode.SPONSORED,) if sponsored else (PaymentMode.PUSH, PaymentMode.UNSPONSORED)
        ),
        fee_payer=address_of(details.get("feePayerKey"), f"{at}.feePayerKey")
        if sponsored
        else None,
        memo=optional_text(request.get("externalId"), f"{where}.externalId", _MOST_MEMO_BYTES),
        splits=tuple(split for split, _, _ in splits),
        opens_accounts=opens_accounts,
        decimals=None if decimals is None else integer_of(decimals, f"{at}.decimals", 0, 255),
        token_program=None if program is None else address_of(program, f"{at}.tokenProgram"),
        most_compute_units=_MOST_COMPUTE_UNITS,
        most_unit_price=_MOST_UNIT_PRICE,
        expires_ms=_parse_instant(challenge.get("expires")),
        description=cut_text(described),
        raw={"challenge": challenge},
    )


def _parse_splits(details: Object, where: str) -> list[tuple[PaymentSplit, bool, str | None]]:
    """Return each split, whether its account must be opened, and its memo."""
    given = details.get("splits")
    found = []
    for at, each in enumerate(list_of([] if given is None else given, where, _MOST_SPLITS)):
        here = f"{where}[{at}]"
        entry = object_of(each, here)
        split = PaymentSplit(
            address_of(entry.get("recipient"), f"{here}.recipient"),
            read_units(entry.get("amount"), f"{here}.amount"),
        )
        opens = flag_of(entry.get("ataCreationRequired"), f"{here}.ataCreationRequired")
        memo = optional_text(entry.get("memo"), f"{here}.memo", _MOST_MEMO_BYTES)
        found.append((split, opens, memo))
    return found


def _parse_asset(currency: Any, network: str, field: str) -> str:
    """Return `SOL` or a mint. On a localnet, sellers use mainnet's symbols."""
    name = currency.upper() if isinstance(currency, str) and currency.isascii() else ""
    if name == "SOL":
        return name
    if name in _SYMBOLS:
        return token_list("devnet" if network == "devnet" else _MAINNET).resolve(name, field)
    return address_of(currency, field)


def _parse_instant(text: str | None) -> int | None:
    """Convert an RFC 3339 time to milliseconds, rounded down."""
    if text is None:
        return None
    try:
        if not _INSTANT.fullmatch(text):
            raise ValueError
        # Its own parser takes at most six digits of a second.
        whole, _, rest = text.partition(".")
        zone = text[-1:] if text.endswith("Z") else text[-6:]
        instant = datetime.fromisoformat(whole.removesuffix(zone) + zone)
        thousandths = rest.removesuffix(zone)[:3].ljust(3, "0")
        milliseconds = int(instant.timestamp()) * 1_000 + int(thousandths)
        if milliseconds < 0:
            raise ValueError
    except (ValueError, OverflowError):
        raise InvalidRequest(f"{_CHALLENGE}: expires must be an RFC 3339 instant") from None
    return milliseconds


def _parse_challenges(header: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the challenges of a header as RFC 9110 writes them, names of parameters in lower case.

    Raises:
        InvalidRequest: the header is malformed, or a challenge has a parameter twice.
    """
    at, scheme = 0, ""
    parameters: dict[str, str] = {}
    while (at := _skip_pattern(_GAP, header, at)) < len(header):
        name = _TOKEN.match(header, at)
        if name is None:
            raise _malformed_header()
        parameter = _parse_parameter(header, name.end())
        if parameter is None:
            if scheme:
                yield scheme, parameters
            scheme, parameters = name[0], {}
            at = _end_of_scheme(header, name.end())
            continue
        value, at = parameter
        key = name[0].lower()
        if not scheme or key in parameters:
            raise _malformed_header()
        parameters[key] = value
    if scheme:
        yield scheme, parameters


def _parse_parameter(header: str, at: int) -> tuple[str, int] | None:
    """Return a parameter's value, and its end; the name ends at `at`. None for a scheme."""
    at = _skip_pattern(_SPACE, header, at)
    if header[at : at + 1] != "=":
        return None
    at = _skip_pattern(_SPACE, header, at + 1)
    quoted = _QUOTED.match(header, at)
    found = quoted or _TOKEN.match(header, at)
    if found is None or not _END.match(header, found.end()):
        raise _malformed_header()
    return (_unescape(quoted[1]) if quoted else found[0]), found.end()


def _end_of_scheme(header: str, at: int) -> int:
    """Find where a scheme's parameters begin, or where the single word in their place ends."""
    if _END.match(header, at):
        return at
    start = _skip_pattern(_SPACE, header, at)
    word = _TOKEN68.match(header, start)
    if word is not None:
        return word.end()
    name = _TOKEN.match(header, start)
    if start == at or name is None or _parse_parameter(header, name.end()) is None:
        raise _malformed_header()
    return start


def _unescape(text: str) -> str:
    """Return a quoted text. Beside what RFC 9110 escapes, sellers write UTF-16 units as \\uXXXX."""

    def plain(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else found[2]

    value = _ESCAPED.sub(plain, text)
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise _malformed_header() from None


def _skip_pattern(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at


def _malformed_header() -> InvalidRequest:
    return InvalidRequest(f"{_CHALLENGE} must be challenges as RFC 9110 writes them")
