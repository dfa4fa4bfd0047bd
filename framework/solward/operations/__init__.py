"""What a wallet can do with money: declared once (`declared`), planned (`@plans`), performed."""
