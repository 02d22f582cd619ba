"""What the outside claims by itself: whose run it speaks of, and what a claim changes."""
