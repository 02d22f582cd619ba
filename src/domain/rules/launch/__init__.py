"""How an instance starts: gate, plan, output roots, adoption."""
