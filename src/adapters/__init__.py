"""All that touches the outside: one module or folder for each system."""
