from tests.server.conftest import api
from tests.support.plugins import shelf

__all__ = ["api", "shelf"]
