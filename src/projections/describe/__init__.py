"""The words for each event: event line, headline, logbook entry."""
