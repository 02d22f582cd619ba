"""What the rules of all subjects use."""
