"""L rules: the launch gate."""
