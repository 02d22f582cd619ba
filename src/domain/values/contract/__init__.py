"""The contract, its lanes and limits, and the plan of a launch."""
