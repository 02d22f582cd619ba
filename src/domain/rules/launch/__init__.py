"""Rules for the start of an instance: gate, plan, output roots, adoption."""
