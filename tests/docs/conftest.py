from tests.server.conftest import api
from tests.support.plugin_distributions import shelf

__all__ = ["api", "shelf"]
