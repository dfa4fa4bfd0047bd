"""Signs transactions, writes them ahead, sends them, and finds how they ended."""
