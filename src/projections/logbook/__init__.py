"""The logbook in Markdown."""
