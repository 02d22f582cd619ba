"""Rules that must hold before a run or a milestone is sealed."""
