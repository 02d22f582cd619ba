"""What to do after a bad end, or about a finding (R), and what a restart proved."""
