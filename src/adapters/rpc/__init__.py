"""The service's RPCs: what may be asked over HTTP, and the client that asks."""
