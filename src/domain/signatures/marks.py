"""Marks: something failed or stands still, and the line does not say why. Their class is `unknown`.

Each is weak: any signature that names a cause comes before it.
"""

from watchkeeper.domain.events_decisions import Outlook
from watchkeeper.domain.signatures.model import Label, Rank, Signature

_RAY = "Ray, python/ray/exceptions.py"

MARKS = (
    Signature(
        "mark.ray-actor",
        Label.UNKNOWN,
        r"RayActorError|ActorDiedError|ActorUnavailableError|OwnerDiedError|ObjectLostError"
        r"|WorkerCrashedError|RayTaskError|ObjectReconstructionFailed\w*|ReferenceCountingAssertion"
        r"|actor died unexpectedly|worker died or was killed|A worker died|object's owner has exit"
        r"ed"
        r"|Worker exit type: SYSTEM_ERROR|Worker unexpectedly exits|TaskUnschedulable\w*"
        r"|actor is (?:dead|unavailable|temporarily)|backend failed|Graceful shutdown of backend",
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
        "actor started",
        _RAY,
        Rank.MARK,
    ),
    Signature(
        "mark.killed",
        Label.UNKNOWN,
        r"(?:^|\s)Killed\s*$|\bKilled\b(?:\s+(?:python|srun|torchrun|bash|\S+/python)| +\S*\.sh)"
        r"|\bSIGKILL\b|signal:? ?(?:9\b|Killed)|exit(?:ed)?(?: with)?(?: code| status)?[ :=]+(?:13"
        r"7|-9)"
        r"\b|exit_?code[\"']? ?[:=] ?[\"']?(?:137|-9)\b|received .{0,20}(?:signal )?9\b|code 137\b"
        r"|killed by signal",
        "train.sh: line 3: 77 Killed                  python train.py",
        "KillWait=60",
        "Linux; shells; Docker",
        Rank.MARK,
        outlook=Outlook.RETRY_ONCE,
        also=(Label.HOST_OOM,),
    ),
    Signature(
        "mark.terminated",
        Label.UNKNOWN,
        r"\bSIG(?:TERM|HUP|ABRT|QUIT|USR\d|XCPU)\b|\bTerminated\s*$|signal(?:s)?:? ?\(?(?:15|1|6|1"
        r"0|12)\b"
        r"|death signal|closing signal|exit(?:ed)? (?:with )?(?:code|status)[ :=]+(?:143|-15|134|-"
        r"6)\b"
        r"|SignalException|exit_?code[\"']? ?[:=] ?[\"']?(?:143|-15|134|-6)\b|Process .{0,30}"
        r"terminated|was terminated\b|received signal|got signal|caught signal",
        "Sending process 1402 closing signal SIGTERM",
        "terminationGracePeriodSeconds: 30",
        "Linux; PyTorch elastic",
        Rank.MARK,
        outlook=Outlook.RETRY_ONCE,
        also=(Label.PREEMPTION, Label.USER_STOPPED),
    ),
    Signature(
        "mark.time-limit",
        Label.UNKNOWN,
        r"DUE TO TIME LIMIT|State: ?TIMEOUT|JobState=TIMEOUT|DeadlineExceeded\b.{0,60}(?:job|activ"
        r"e)"
        r"|Job was active on the node longer than|wall[- ]?(?:time|clock)\b.{0,40}(?:exceed|limit|"
        r"reached|expired|ran out)|activeDeadlineSeconds.{0,40}exceed|(?:time|run ?time|duration) "
        r"limit"
        r" (?:has been )?(?:exceed|reached|hit)|exceeded (?:its |the )?(?:maximum |max )?(?:time ("
        r"?:limit|allocation)|run ?time|"
        r"execution time|duration)|TimeLimit.{0,20}exceed|Execution Timeout|timed out after \d+ ho"
        r"urs",
        "slurmstepd: error: *** JOB 1034 ON c4 CANCELLED AT 2020-12-18T15:51 DUE TO TIME LIMIT ***",
        "TimeLimit=20:00:00",
        "SLURM; Kubernetes Job",
        Rank.SPECIFIC,
        also=(Label.USER_STOPPED, Label.CONFIG_ERROR),
    ),
    Signature(
        "mark.cancelled",
        Label.UNKNOWN,
        r"\*\*\* (?:JOB|STEP) .{0,80}CANCELLED AT|\bCANCELLED\b|\bCANCELED\b|Job step aborted"
        r"|srun: forcing job termination|asked to stop|has been (?:cancel|stopp|terminat)\w+"
        r"|JobStatus\.STOPPED|status:? ?\"?STOPPED",
        "slurmstepd: error: *** JOB 77 ON n1 CANCELLED AT 2024-01-01T00:00:00 ***",
        "cancel_on_failure: false",
        "SLURM; Ray",
        Rank.MARK,
        also=(Label.USER_STOPPED, Label.PREEMPTION),
    ),
    Signature(
        "mark.exit-code",
        Label.UNKNOWN,
        r"exit(?:ed|ing)?(?: with)?[ _]?(?:non-?zero|(?:code|status|value)[ :='\"]{1,4}(?:-[1-9]|["
        r"1-9])"
        r"\d*)|exitcode[ \"']{0,2}[:=] ?-?[1-9]|non-?zero exit|ChildFailedError|returned (?:a )?(?:"
        r"non-?zero|exit (?:code|status) [1-9])|CalledProcessError|return ?code[ :=]+-?[1-9]"
        r"|ExitCode[ :=]+[1-9]|exit code:? [1-9]|failed with (?:code|status|exit) ?:?[1-9]"
        r"|rc ?= ?[1-9]|Exited \(?[1-9]|ProcessRaisedException|ProcessExitedException|SystemExit: "
        r"[1-9]"
        r"|status ?= ?[1-9]\d*/FAIL",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Exit status: 0",
        "shells; torchrun; SLURM; Docker",
        Rank.MARK,
    ),
    Signature(
        "mark.traceback",
        Label.UNKNOWN,
        r"Traceback \(most recent call last\)|^\s*File \"[^\"]+\", line \d+|\bframe #\d+: |"
        r"run_backward\(|\(\S+\.py:\d+\)\s*$|unhandled exception|uncaught exception|Unhandled "
        r"Exception|terminate called|core dumped|\bAborted\b\s*(?:\(|$)|Fatal Python error|"
        r"Aborted \(core|stack trace:|Exception in thread",
        "Traceback (most recent call last):",
        "traceback_depth: 20",
        "Python; C++",
        Rank.MARK,
    ),
    Signature(
        "mark.exception",
        Label.UNKNOWN,
        r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Fault|Exit)(?:Group)?\b(?:: |:$|$"
        r"|\()"
        r"|(?:[\s:>|(\[])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S"
        r"|^(?:Exception|Error|error|fatal|FATAL|panic)\b ?[:(]",
        "RuntimeError: something went wrong",
        "valid ErrorRate: 2.16e-02",
        "Python",
        Rank.MARK,
    ),
    Signature(
        "mark.level",
        Label.UNKNOWN,
        r"^\[?(?:ERROR|FATAL|CRITICAL|SEVERE)\b[\]:|, -]|\[(?:ERROR|FATAL|CRITICAL|error)\]"
        r"|(?:^|\s)(?:ERROR|FATAL|CRITICAL)(?: - |: | \|| {1,2}[\w./]+(?:\.\w+)?:\d+)|level=(?:error|"
        r"fatal)|\"(?:level|severity|levelname)\": ?\"(?:error|fatal|critical)\"|\*\*\*ALERT"
        r"|^(?:error|fatal):",
        "ERROR scripts.py:410 -- something",
        "#SBATCH --error=%x.out",
        "logging libraries",
        Rank.MARK,
    ),
    Signature(
        "mark.failed-words",
        Label.UNKNOWN,
        r"(?-i:\b(?:FAILED|ERRORED|CRASHED|ABORTED|FATAL|CRASH)\b)|"
        r"\b(?:job|task|run|trial|pod|worker|workers|worker group|process|container|actor|step|tra"
        r"ining|"
        r"attempt|experiment|script|program|command|rank|node|replica|child|launch|instance|replic"
        r"atedjob"
        r"|evaluation|pipeline|cluster|stage|test|allocation|execution|backoff|initiali[sz]ation|r"
        r"eplicas)"
        r"s?\b.{0,40}\b(?:failed|failing|crash(?:ed|es|ing)?|errored|died|exited unexpectedly|"
        r"exited abnormally|terminated abnormally|FAILED|ERRORED|aborted|unhealthy|CrashLoopBackOf"
        r"f)\b"
        r"|\bFailed to \w+|JobStatus\.FAILED|BackoffLimitExceeded|CrashLoopBackOff|Back-off restar"
        r"ting"
        r"|status(?: is|:)? ?['\"]?(?:FAILED|ERROR|Failed|Error)\b|(?:^|\s)failed (?:with|to|due|"
        r"because|after|\()|An error occurred|Error occurred|internal error|went wrong|could not ("
        r"?:be )?"
        r"(?:start|complete|recover|continue)|exited unexpectedly|state[: =]+['\"]?(?:FAILED|ERROR"
        r"|Error)\b"
        r"|unexpectedly (?:exited|terminated|died|crashed|stopped|closed)|\bJob .{0,30}failed\b",
        "Job 12 failed",
        "0 of 12 jobs done",
        "orchestrators",
        Rank.MARK,
    ),
    Signature(
        "mark.hang",
        Label.UNKNOWN,
        r"^Thread (?:0x)?[0-9a-f]+ \((?:idle|active)\b|\bpy-?spy dump\b|\b(?:hangs|freezes|stalls|"
        r"got stuck|gets stuck|is deadlocked|deadlocks?|hung)\b|does not "
        r"(?:progress|complete|finish|return|proceed)|is (?:stuck|hung|hanging|"
        r"frozen|stalled)\b|\b(?:hangs?|hung|stalled|froze|frozen)\b.{0,40}(?:at|for|on|in|after|w"
        r"ith)\b"
        r"|no (?:progress|output|new (?:log|step)s?|log output|heartbeat|activity|logs?)\b.{0,40}("
        r"?:for|"
        r"since|in) |(?:stopped|not) (?:making progress|progressing|advancing|responding|emitting)"
        r"|\bstuck (?:at|in|on|for)\b|Timeout \(\d+:\d+:\d+\)!|\b(?:stops?|stopped|dies|died|exits"
        r"?|exited|quits?|terminates?|ended|crash(?:es|ed)?|disappear\w*|"
        r"vanish\w*) (?:\w+ )?(?:silently|unexpectedly|suddenly|abruptly|randomly|without (?:any )"
        r"?(?:error|"
        r"trace|message|warning|log|output|reason|explanation)|with no|for no|immediately|midway|i"
        r"n the "
        r"middle)|never (?:returns|finish\w*|starts|started|ends|completes|completed|progress\w*|r"
        r"eached|"
        r"recovers)|keeps? waiting|wait(?:s|ing)? forever|takes forever|not moving|nothing (?:happ"
        r"ens|is "
        r"printed|more)|no more (?:output|logs|progress)|\bfreez\w+|\bstall(?:s|ed|ing)\b|most rec"
        r"ent call "
        r"first|did not rule out"
        r"|without (?:any )?progress|GPU util\w* (?:is |at |dropped to )?0 ?%",
        "training is stuck at step 1200",
        "hang timeout: 900 s",
        "py-spy; faulthandler; chronicles",
        Rank.MARK,
        also=(Label.COLLECTIVE_HANG,),
    ),
)
