"""Money operations of a wallet: their declarations (`declared`), plans (`plans`) and execution."""
