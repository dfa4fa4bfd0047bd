"""No secret reaches a log line, whatever way it takes."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from solders.keypair import Keypair

from solward.telemetry.logs import configure
from solward.telemetry.scrub import REDACTED, scrub, scrub_text

KEYPAIR = Keypair.from_seed(b"a key that no log may ever show.")
PRIVATE = str(KEYPAIR)
ARRAY = KEYPAIR.to_json()
SIGNATURE = str(KEYPAIR.sign_message(b"message"))
VENDOR = "sk-" + "ab12" * 8


@pytest.fixture
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = handlers, level
    structlog.reset_defaults()


def written(as_json: bool) -> io.StringIO:
    stream = io.StringIO()
    configure("DEBUG", as_json=as_json, stream=stream)
    return stream


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("as_json", [True, False])
def test_secrets_are_scrubbed_from_every_way_in(as_json: bool) -> None:
    stream = written(as_json)
    log = structlog.get_logger("solward.test")
    log.info("plain", text=f"key {PRIVATE}", nested={"deep": [{"passphrase": "canary"}]})
    log.info("headers", headers={"Authorization": "Bearer canary.token"}, raw=list(bytes(KEYPAIR)))
    log.warning("positional %s", PRIVATE)
    log.info(f"in the event {ARRAY}", raw=bytes(KEYPAIR))
    with structlog.contextvars.bound_contextvars(api_key=VENDOR):
        log.info("context")
    try:
        raise ValueError(f"bad key {PRIVATE} at https://rpc.example/?api-key=canary")
    except ValueError:
        log.exception("raised")
        logging.getLogger("library").exception("standard %s", VENDOR)
    logging.getLogger("library").error("standard %s", ARRAY)
    text = stream.getvalue()
    for secret in (PRIVATE, ARRAY, ARRAY[1:40], "canary", VENDOR):
        assert secret not in text
    assert text.count("ValueError") >= 2
    assert "headers" in text


@pytest.mark.usefixtures("restored")
def test_lines_are_json_objects_with_level_logger_and_time() -> None:
    stream = written(True)
    structlog.get_logger("solward.test").info("sent", signature=SIGNATURE, lamports=5, ok=True)
    line = json.loads(stream.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "sent",
        "level": "info",
        "logger": "solward.test",
        "signature": SIGNATURE,
        "lamports": 5,
        "ok": True,
    }


@pytest.mark.usefixtures("restored")
def test_a_level_holds_for_both_kinds_of_loggers() -> None:
    stream = io.StringIO()
    configure("WARNING", as_json=True, stream=stream)
    structlog.get_logger("a").info("quiet")
    logging.getLogger("b").info("quiet")
    structlog.get_logger("a").warning("loud")
    logging.getLogger("httpx").info("request")
    assert [json.loads(line)["event"] for line in stream.getvalue().splitlines()] == ["loud"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"<{PRIVATE}>", f"<{REDACTED}>"),
        (f"signature {SIGNATURE} landed", f"signature {SIGNATURE} landed"),
        (f"keypair={ARRAY};", f"keypair={REDACTED};"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {REDACTED}"),
        (f"key {VENDOR} refused", f"key {REDACTED} refused"),
        ("GET https://rpc.example/v1?api-key=x ok", f"GET https://rpc.example/v1?{REDACTED} ok"),
        ("postgresql://user:pass@db/x", f"postgresql://{REDACTED}@db/x"),
        ("the [1, 2, 3] of it is not a key", "the [1, 2, 3] of it is not a key"),
        (str(KEYPAIR.pubkey()), str(KEYPAIR.pubkey())),
    ],
)
def test_texts_lose_what_looks_like_a_key_and_nothing_else(text: str, expected: str) -> None:
    assert scrub_text(text) == expected


@pytest.mark.parametrize(
    "name", ["api_secret", "apiKey", "X-API-Key", "PASSPHRASE", "privateKey", "seed", "kek"]
)
def test_fields_named_as_secrets_are_redacted(name: str) -> None:
    assert scrub({name: "value"}) == {name: REDACTED}


@pytest.mark.parametrize("name", ["author", "tokens", "publicKey", "key_count", "mint", "amount"])
def test_other_fields_are_kept(name: str) -> None:
    assert scrub({name: "value", "missing": None}) == {name: "value", "missing": None}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (list(range(64)), REDACTED),
        ((1, "two", None, 2.5, True), [1, "two", None, 2.5, True]),
        (b"12345678", "<8 bytes>"),
        (KEYPAIR, REDACTED),
    ],
)
def test_values_of_any_kind_are_made_safe(value: Any, expected: Any) -> None:
    assert scrub(value) == expected
