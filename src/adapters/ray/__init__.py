"""Jobs on a Ray cluster, through its Job Submission API."""
