"""What was promised before a run: its contract, lanes and limits, and the plan of a launch."""
