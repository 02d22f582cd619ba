"""Adapters to outside systems: one module or package for each system."""
