from tests.support.swaps import swaps
from tests.support.tokens import tokens

__all__ = ["swaps", "tokens"]
