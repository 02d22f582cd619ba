"""Code shared by the rules of all subjects."""
