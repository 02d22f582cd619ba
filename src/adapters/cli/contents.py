"""What `watchkeeper --help` lists: commands in the order a run needs them.

This module imports no command. Importing all of them imports every client, which takes seconds.
"""

from collections.abc import Mapping

CONTENTS: Mapping[str, Mapping[str, str]] = {
    "Every day": {
        "launch": "Check a contract against the launch rules and launch it.",
        "approve": "Approve the launch plan that was checked last.",
        "watch": "Watch all runs: relaunch, push and seal them.",
        "status": "Show all runs or one; runs that need attention come first.",
        "why": "Explain a run's current state or one of its events.",
        "logs": "Print the output of a run's job.",
        "answer": "Answer a question, which closes it.",
        "ack": "Say that you work on a question.",
        "events": "List a run's events.",
        "logbook": "Print a run's logbook, current or at an earlier time.",
        "checkpoints": "List a run's checkpoints and their problems.",
        "note": "Add a remark to a run's history and logbook.",
        "stop": "Stop a live job for good.",
        "relaunch": "Relaunch from the newest complete checkpoint.",
    },
    "Set up and prove": {
        "init": "Create a home: ledger, principals, folders.",
        "doctor": "Check the health of the home.",
        "demo": "Launch a real training, break it, watch the recovery.",
        "serve": "Watch all runs and answer RPCs.",
        "verify": "Verify bytes, chains, histories, views and witnesses.",
    },
    "Groups": {
        "run": "Adopt, hand over, correct, roll back, seal or close a run.",
        "permit": "Propose, consent, waive and revoke.",
        "contract": "Write a contract, or check one.",
        "signals": "Show and manage the signals of outside services.",
        "ledger": "Manage the ledger: views, copies, figures.",
        "tools": "Programs for other programs: judge, triage, schemas, streams.",
        "admin": "Set up cloud services.",
    },
}
"""Sections, their commands, and one line for each command that fits into 80 columns."""

BELOW: Mapping[str, Mapping[str, str]] = {
    "run": {
        "adopt": "Adopt a job that was launched elsewhere.",
        "announce": "Announce planned work on a run.",
        "decline": "End the watch over a run for good; its job continues.",
        "handover": "Hand the watch over to another principal.",
        "supersede": "Close a run in favour of a run that continues it.",
        "abandon": "Abandon a run; its record stays.",
        "seal": "Verify a finished run and seal it with a pushed tag.",
        "correct": "Correct a wrong event; the old entry stays.",
        "revise": "Change the recorded cause of a failure.",
        "fix": "Continue at the commit of a small fix.",
        "rollback": "Plan a rollback to an earlier checkpoint.",
        "whatif": "Judge recorded checks again under another policy.",
    },
    "permit": {
        "propose": "Propose a guarded action.",
        "consent": "Consent to a proposal, once.",
        "waive": "Waive a blocking launch rule or a missing seal item.",
        "revoke": "Revoke an approval, a consent or a waiver.",
    },
    "tools": {
        "bridge": "Publish a cluster's events to Pub/Sub.",
        "completion": "Print the shell completion script.",
        "subscribe": "Print each event when it is recorded, for programs.",
        "schema": "Print the schemas of events and observations.",
        "triage": "Classify a failure from a log.",
        "judge": "Judge observations as the watch does.",
        "progress": "Read training progress from a log.",
    },
    "admin": {
        "setup": "Set up cloud services that send signals.",
    },
}
"""The commands of each group that is imported one command at a time."""
