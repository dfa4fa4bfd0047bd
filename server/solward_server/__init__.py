"""The REST server: a Quart application over one `solward.service.Solward`."""
