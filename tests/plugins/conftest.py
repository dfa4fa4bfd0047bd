from tests.plugins.skills import skills
from tests.support.swaps import swaps
from tests.support.tokens import tokens
from tests.support.vendors.server import server

__all__ = ["server", "skills", "swaps", "tokens"]
