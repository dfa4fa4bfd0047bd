"""The TLS context of this process's HTTPS clients, read once."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache

import httpx


def tls_context() -> ssl.SSLContext:
    """Returns a context that trusts the certificate authorities httpx trusts.

    Reading them takes 20 ms, so clients share a context; it holds no connection. httpx reads two
    variables of the environment, and a change of either gives another context.
    """
    return _read(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _read(_cert_file: str | None, _cert_dir: str | None) -> ssl.SSLContext:
    return httpx.create_ssl_context()
