"""Signs, writes ahead, sends, and finds what became of a transaction."""
