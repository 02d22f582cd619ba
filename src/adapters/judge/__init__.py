"""What `tools judge` reads: its lines, and what is wrong with them."""
