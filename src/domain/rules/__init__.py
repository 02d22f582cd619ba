"""Domain rules, one package for each subject."""
