"""Signs, writes ahead and sends transactions, and finds how they ended."""
