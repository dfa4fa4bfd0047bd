from tests.server.conftest import api

__all__ = ["api"]
