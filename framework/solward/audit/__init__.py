"""The audit log: hash-chained rows, each written in the transaction of the change it records."""
