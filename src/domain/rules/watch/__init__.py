"""Rules of the watch: who holds it, and what a check records."""
