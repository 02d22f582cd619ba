"""What leaves for git and for subscribers."""
