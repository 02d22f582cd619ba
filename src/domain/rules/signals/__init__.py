"""Rules for signals: which run a signal is about, and what it changes."""
