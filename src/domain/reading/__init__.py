"""Turns foreign text and series into typed facts.

Nothing here knows a run, an event or a rule.
"""
