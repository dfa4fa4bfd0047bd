"""How a request of a plugin host failed on its way, by the code with which a `SkillError` says so.

httpx and httpcore have an exception of the same name for each.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

# The order is that of the classes: the first that an exception is one of.
BY_NAME: Final = MappingProxyType(
    {
        "ConnectTimeout": "http_connect_timeout",
        "ReadTimeout": "http_read_timeout",
        "WriteTimeout": "http_write_timeout",
        "PoolTimeout": "http_pool_timeout",
        "ConnectError": "http_connect_error",
        "ReadError": "http_read_error",
        "WriteError": "http_write_error",
        "LocalProtocolError": "http_local_protocol_error",
        "RemoteProtocolError": "http_remote_protocol_error",
    }
)
BY_CODE: Final = MappingProxyType({code: name for name, code in BY_NAME.items()})
