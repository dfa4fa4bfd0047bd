"""A seller over HTTP: decorators that charge for a Quart route, by MPP or by x402."""

from .charging import NotPaid, Price, Served
from .mpp import Mpp
from .x402 import X402

__all__ = ["X402", "Mpp", "NotPaid", "Price", "Served"]
