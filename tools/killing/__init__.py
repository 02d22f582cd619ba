"""Parts of `kill_watch`: the watch that is killed, the campaign, the judge."""
