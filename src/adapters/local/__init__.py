"""Jobs as processes on this machine, each under a small supervisor of its own."""
