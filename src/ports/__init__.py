"""Ports: the interfaces through which the services reach the outside."""
