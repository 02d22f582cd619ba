"""What-if: the same rules under another policy or without a ledger."""
