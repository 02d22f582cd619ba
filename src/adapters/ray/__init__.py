"""Jobs on a Ray cluster, by its Job Submission API."""
