"""The REST server: a Quart application over one `solward.service.service.Solward`."""
