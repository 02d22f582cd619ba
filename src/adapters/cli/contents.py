"""What `watchkeeper --help` lists: commands in the order a run needs them.

This module imports no command. Importing all of them imports every client, which takes seconds.
"""

from collections.abc import Mapping

CONTENTS: Mapping[str, Mapping[str, str]] = {
    "Set up": {
        "init": "Create a home: ledger, principals, folders.",
        "doctor": "Check the health of the home.",
        "setup": "Set up cloud services that send signals.",
        "demo": "Launch a real training, break it, watch the recovery.",
        "completion": "Print the shell completion script.",
    },
    "Launch and watch": {
        "contract": "Write a contract, or check one.",
        "launch": "Check a contract against the launch rules and launch it.",
        "approve": "Approve the launch plan that was checked last.",
        "adopt": "Adopt a job that was launched elsewhere.",
        "watch": "Watch all runs: relaunch, push and seal them.",
        "serve": "Watch all runs and answer RPCs.",
        "bridge": "Publish a cluster's events to Pub/Sub.",
        "handover": "Hand the watch over to another principal.",
        "announce": "Announce planned work on a run.",
        "decline": "End the watch over a run for good; its job continues.",
    },
    "Read": {
        "status": "Show all runs or one; runs that need attention come first.",
        "events": "List a run's events.",
        "logbook": "Print a run's logbook, current or at an earlier time.",
        "logs": "Print the output of a run's job.",
        "why": "Explain a run's current state or one of its events.",
        "whatif": "Judge recorded checks again under another policy.",
        "checkpoints": "List a run's checkpoints and their problems.",
        "signals": "Show and manage the signals of outside services.",
        "subscribe": "Print each event when it is recorded, for programs.",
        "schema": "Print the schemas of events and observations.",
    },
    "Judge": {
        "triage": "Classify a failure from a log.",
        "judge": "Judge observations as the watch does.",
        "progress": "Read training progress from a log.",
    },
    "Say": {
        "note": "Add a remark to a run's history and logbook.",
        "correct": "Correct a wrong event; the old entry stays.",
    },
    "Decide": {
        "ack": "Say that you work on a question.",
        "answer": "Answer a question, which closes it.",
        "stop": "Stop a live job for good.",
        "revise": "Change the recorded cause of a failure.",
        "fix": "Continue at the commit of a small fix.",
        "relaunch": "Relaunch from the newest complete checkpoint.",
        "rollback": "Plan a rollback to an earlier checkpoint.",
        "supersede": "Close a run in favour of a run that continues it.",
        "abandon": "Abandon a run; its record stays.",
    },
    "Allow": {
        "propose": "Propose a guarded action.",
        "consent": "Consent to a proposal, once.",
        "waive": "Waive a blocking launch rule or a missing seal item.",
        "revoke": "Revoke an approval, a consent or a waiver.",
    },
    "Close and prove": {
        "seal": "Verify a finished run and seal it with a pushed tag.",
        "verify": "Verify bytes, chains, histories, views and witnesses.",
        "ledger": "Manage the ledger: views, copies, figures.",
    },
}
"""Sections, their commands, and one line for each command that fits into 80 columns."""
