"""The audit log: hash-chained rows, written with the change they record, read and verified."""
