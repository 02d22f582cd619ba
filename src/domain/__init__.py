"""The pure core: events, state, decisions and rules. No input or output, no clock, no chance."""
