"""Jobs as processes on this machine, each with its own small supervisor."""
