"""The pure core: events, state, decisions and rules, without input or output."""
