"""What must be proven before a run or a milestone is sealed."""
