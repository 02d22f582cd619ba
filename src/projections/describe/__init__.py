"""Wording of each event: event line, headline, logbook entry."""
