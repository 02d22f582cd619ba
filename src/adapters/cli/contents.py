"""What `watchkeeper --help` lists: commands in the order a run needs them.

This module imports no command. Importing all of them imports every client, which takes seconds.
"""

from collections.abc import Mapping

CONTENTS: Mapping[str, Mapping[str, str]] = {
    "Set up": {
        "init": "Make a home: ledger, principals, folders.",
        "doctor": "Say whether the home is well.",
        "setup": "Let signals from outside reach watchkeeper.",
        "demo": "Launch a real training, harm it, watch it being recovered.",
        "completion": "Complete commands, options and runs in your shell.",
    },
    "Launch and watch": {
        "contract": "Write a contract and check its form.",
        "launch": "Hold a contract against the launch rules and launch it.",
        "approve": "Allow the plan that was last checked.",
        "adopt": "Take a job that was launched elsewhere.",
        "watch": "Watch all runs: relaunch, push and seal them.",
        "serve": "Watch all runs and answer RPCs.",
        "bridge": "Publish what happens on a cluster to Pub/Sub.",
        "handover": "Hand the watch over to somebody.",
        "announce": "Announce what is done to a run on purpose.",
        "decline": "End the watch over a run for good; its job goes on.",
    },
    "Read": {
        "status": "Show the fleet, or one run: who needs someone comes first.",
        "events": "List a run's events.",
        "logbook": "Print a run's logbook, of now or of an earlier time.",
        "logs": "Print the output of a run's job.",
        "why": "Say why a run stands as it does, or why an event came.",
        "whatif": "Judge recorded checks again under another policy.",
        "checkpoints": "List a run's checkpoints, and what stands against each.",
        "signals": "Show what the outside says happened.",
        "subscribe": "Print every event as it is recorded, for programs.",
        "schema": "Print the schemas of events and observations.",
    },
    "Judge": {
        "triage": "Say what broke, from a log.",
        "judge": "Judge observations as the watch would.",
        "progress": "Read how far training is from its output.",
    },
    "Say": {
        "note": "Add a remark to a run's history and logbook.",
        "correct": "Say what is true where an event is wrong.",
    },
    "Decide": {
        "ack": "Say that you work on a question.",
        "answer": "Answer a question, which closes it.",
        "stop": "Stop a live job, so that nothing relaunches it.",
        "revise": "Name the cause of an end anew.",
        "fix": "Go on at the commit of a small fix.",
        "relaunch": "Relaunch on purpose, from the newest complete checkpoint.",
        "rollback": "Plan the way back to an earlier checkpoint.",
        "supersede": "Close a run in favour of another that goes on from it.",
        "abandon": "Give a run up; its record stays.",
    },
    "Allow": {
        "propose": "Propose a guarded action.",
        "consent": "Permit a proposal, once.",
        "waive": "Let a blocking rule, or what a seal lacks, pass.",
        "revoke": "Take back an approval, a consent or a waiver.",
    },
    "Close and prove": {
        "seal": "Verify a finished run and seal it with a pushed tag.",
        "verify": "Verify bytes, chains, histories, views and witnesses.",
        "ledger": "Look after the ledger: its views and copies.",
    },
}
"""Sections, their commands, and one line for each command that fits into 80 columns."""
