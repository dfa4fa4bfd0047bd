"""The audit log: hash-chained rows, written with what they record, read and verified."""
