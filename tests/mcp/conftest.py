from tests.server.conftest import api, shared_api

__all__ = ["api", "shared_api"]
