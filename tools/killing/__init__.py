"""The parts of `kill_watch`: the watch that is killed, the campaign of kills, the judge."""
