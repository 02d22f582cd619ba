"""The same rules on recorded facts, under another policy or without a ledger."""
