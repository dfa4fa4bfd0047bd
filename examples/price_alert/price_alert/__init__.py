"""Says once that a price crossed a bound."""
