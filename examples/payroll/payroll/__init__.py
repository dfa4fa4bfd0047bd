"""A payroll: it imports `solward`'s public surface only."""
