"""Moved to solward.record; this name goes away once nothing imports it."""

from solward.record import TransactionRecord, TransactionStatus, TransactionType

__all__ = ["TransactionRecord", "TransactionStatus", "TransactionType"]
