"""Values that all floors share: contract, plan, observation, check, causes."""
