"""The launch rules (L), each a plain function over the contract, the plan and facts."""
