"""Money operations of a wallet: declared (`declared`), planned (`plans`) and performed."""
