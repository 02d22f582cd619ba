"""What was promised: the contract, its lanes and limits, the plan of a launch."""
