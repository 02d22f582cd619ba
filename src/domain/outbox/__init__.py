"""What the record asks to be done outside, what is due next, and how far it has come."""
