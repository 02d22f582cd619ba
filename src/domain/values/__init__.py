"""Values that every floor shares: contract, plan, observation, check, causes, secrets."""
