"""The TLS contexts of this process's HTTPS clients."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache

import httpx


def tls_context(*, trust_env: bool = True) -> ssl.SSLContext:
    """Return a context that trusts the certificate authorities that httpx trusts.

    Clients share it: it holds no connection, and reading the authorities takes 20 ms.

    Args:
        trust_env: whether the environment's `SSL_CERT_FILE` and `SSL_CERT_DIR` count.
    """
    if not trust_env:
        return _read(False, None, None)
    return _read(True, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _read(trust_env: bool, _cert_file: str | None, _cert_dir: str | None) -> ssl.SSLContext:
    # httpx reads the two variables itself; a changed one gives another context.
    return httpx.create_ssl_context(trust_env=trust_env)
