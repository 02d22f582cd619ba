"""The same rules without a ledger, under another policy, or on other facts: judge, whatif, why."""
