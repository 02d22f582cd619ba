"""The service's RPCs over HTTP: server and client."""
