"""Marks: something failed or stands still, and the line does not say why. Their class is `unknown`.

Each is weak: any signature that names a cause comes before it.
"""

from watchkeeper.domain.facts.decisions import Outlook
from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_RAY = "Ray, python/ray/exceptions.py"

MARKS = (
    Signature(
        "mark.ray-actor",
        Label.UNKNOWN,
        r"RayActorError|ActorDiedError|ActorUnavailableError|OwnerDiedError|ObjectLostError"
        r"|WorkerCrashedError|RayTaskError|ObjectReconstructionFailed\w*"
        r"|ReferenceCountingAssertion|actor died unexpectedly|worker died or was killed"
        r"|A worker died|object's owner has exited|Worker exit type: SYSTEM_ERROR"
        r"|Worker unexpectedly exits|TaskUnschedulable\w*|actor is (?:dead|unavailable"
        r"|temporarily)|backend failed|Graceful shutdown of backend",
        "ray.exceptions.RayActorError: The actor died unexpectedly before finishing this task.",
        "actor started",
        _RAY,
        Rank.MARK,
    ),
    Signature(
        "mark.killed",
        Label.UNKNOWN,
        r"(?:^|\s)Killed\s*$|\bKilled\b(?:\s+(?:python|srun|torchrun|bash|\S+/python)"
        r"| +\S*\.sh)|\bSIGKILL\b|signal:? ?(?:9\b|Killed)|exit(?:ed)?(?: with)?(?: code"
        r"| status)?[ :=]+(?:137|-9)\b|exit_?code[\"']? ?[:=] ?[\"']?(?:137|-9)\b"
        r"|received .{0,20}(?:signal )?9\b|code 137\b|killed by signal|\bKilled: 9\b|已杀死"
        r"|強制終了|Processus arrêté",
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
        r"\bSIG(?:TERM|HUP|ABRT|QUIT|USR\d|XCPU)\b|\bTerminated\s*$|signal(?:s)?:? ?\(?(?:15|1"
        r"|6|10|12)\b|death signal|closing signal|exit(?:ed)? (?:with )?(?:code"
        r"|status)[ :=]+(?:143|-15|134|-6)\b|SignalException"
        r"|exit_?code[\"']? ?[:=] ?[\"']?(?:143|-15|134|-6)\b|Process .{0,30}terminated"
        r"|was terminated\b|received signal|got signal|caught signal",
        "Sending process 1402 closing signal SIGTERM",
        "terminationGracePeriodSeconds: 30",
        "Linux; PyTorch elastic",
        Rank.MARK,
        outlook=Outlook.RETRY_ONCE,
        also=(Label.PREEMPTION, Label.USER_STOPPED),
    ),
    Signature(
        "mark.failure-limit",
        Label.UNKNOWN,
        r"^(?!.*\b(?:if|until|till|when|once|unless|before|after|not|never|no|0)\b.{0,80}"
        r"(?:exceed|reach|exhaust)).*(?:"
        r"(?:exceed(?:ed|s)?|exhausted|reached)\b.{0,30}(?:\bmax(?:imum)?[ _-]?(?:(?:allowed|task|"
        r"worker|pod|job|app|number of|group)[ _-])*(?:failures|restarts|retries)\b"
        r"|\b(?:back-?off|restart|retry|failure) ?(?:limit|budget)|\bmaxRestarts\b)"
        r"|\bmax(?:imum)?[ _-]?(?:(?:allowed|task|worker|pod|job|app|number of|group)[ _-])*"
        r"(?:failures|restarts|retries)\b.{0,30}\b(?:exceeded|reached|exhausted)\b(?! with url)"
        r"|\b(?:back-?off|restart|retry|failure) ?(?:limit|budget).{0,30}\b(?:exceeded|reached"
        r"|exhausted)\b|\b(?:job|task|run|trial|actor) (?:has )?reached max_?restarts"
        r"|MaxRestartsExceeded|too many (?:task |worker |pod |job )?(?:failures|restarts)\b"
        r"|Job aborted due to stage failure)",
        "Job exceeded max_task_failures",
        "after max_retries is exceeded the job is given up",
        "Iris; Ray; Kubernetes Job; torchelastic; Spark",
        Rank.MARK,
    ),
    Signature(
        "mark.given-up",
        Label.UNKNOWN,
        r"^(?!.*\b(?:if|until|till|when|once|unless|before|after|not|never|no|0)\b.{0,80}"
        r"(?:exceed|reach|exhaust)).*(?:"
        r"\b(?:\w*job|jobset|run|trial|experiment|app(?:lication)?|actor|training|worker ?group)\b"
        r".{0,50}\b(?:exceed(?:ed|s)|exhausted|reached|reaching)\b.{0,30}(?:\bmax(?:imum)?[ _-]?"
        r"(?:(?:allowed|task|worker|pod|job|app|number of|group)[ _-])*(?:failures|restarts"
        r"|retries)\b|\b(?:back-?off|restart|failure) ?(?:limit|budget)|\bmaxRestarts\b)"
        r"|\bBackoffLimitExceeded\b|\bMaxRestartsExceeded\b|\bReachedMaxRestarts\b"
        r"|Job aborted due to stage failure)",
        "INFO Job exceeded max_task_failures",
        "INFO Job max_task_failures=3",
        "Iris; Ray; Kubernetes Job and JobSet; Spark",
        Rank.MARK,
        stated=True,
    ),
    Signature(
        "mark.time-limit",
        Label.UNKNOWN,
        r"(?-i:\sTIMEOUT\s)|(?-i:\bTIMEOUT: )|DUE TO TIME LIMIT|State: ?TIMEOUT"
        r"|JobState=TIMEOUT|DeadlineExceeded\b.{0,60}(?:job|active)"
        r"|Job was active on the node longer than|wall[- ]?(?:time|clock)\b.{0,40}(?:exceed"
        r"|limit|reached|expired|ran out)|activeDeadlineSeconds.{0,40}exceed|(?:time|run ?time"
        r"|duration) limit (?:has been )?(?:exceed|reached|hit)|exceeded (?:its "
        r"|the )?(?:maximum |max )?(?:time (?:limit|allocation)|run ?time|execution time"
        r"|duration)|TimeLimit.{0,20}exceed|Execution Timeout|timed out after \d+ hours",
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
        r"\b(?:exit(?:ed|s)?|returned|died|failed)(?: with)?:? ?\(?(?:(?:error )?(?:code"
        r"|status))?[:= ]{0,2}\(?-?[1-9]\d{0,2}\b(?! ?[%/.:]| (?:steps?|epochs?|workers?|times?"
        r"|of|attempts?|seconds?|s\b|min|hours?|samples|out))|status=[1-9]\d*/"
        r"|\berror code:? ?-?[1-9]|exit(?:ed|ing)?(?: with)?[ _]?(?:non-?zero|(?:code|status"
        r"|value)[ :='\"]{1,4}(?:-[1-9]|[1-9])\d*)|exitcode[ \"']{0,2}[:=] ?-?[1-9]"
        r"|non-?zero exit|ChildFailedError|returned (?:a )?(?:non-?zero|exit (?:code"
        r"|status) [1-9])|CalledProcessError|return ?code[ :=]+-?[1-9]|ExitCode[ :=]+[1-9]"
        r"|exit code:? [1-9]|failed with (?:code|status|exit) ?:?[1-9]|rc ?= ?[1-9]"
        r"|Exited \(?[1-9]|ProcessRaisedException|ProcessExitedException|SystemExit: [1-9]"
        r"|status ?= ?[1-9]\d*/FAIL",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Exit status: 0",
        "shells; torchrun; SLURM; Docker",
        Rank.MARK,
    ),
    Signature(
        "mark.traceback",
        Label.UNKNOWN,
        r"Traceback \(most recent call last\)|^\s*File \"[^\"]+\", line \d+|\bframe #\d+: "
        r"|run_backward\(|\(\S+\.py:\d+\)\s*$|unhandled exception|uncaught exception"
        r"|Unhandled Exception|terminate called|core dumped|\bAborted\b\s*(?:\(|$)"
        r"|Fatal Python error|Aborted \(core|stack trace:|Exception in thread",
        "Traceback (most recent call last):",
        "traceback_depth: 20",
        "Python; C++",
        Rank.MARK,
    ),
    Signature(
        "mark.exception",
        Label.UNKNOWN,
        r"^(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Failure|Fault|Exit)(?:Group)?\b(?:: "
        r"|:$|$|\()|(?:[\s:>|(\[])(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S"
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
        r"|(?:^|\s)(?:ERROR|FATAL|CRITICAL)(?: - |: | \||  ?[\w./]+(?:\.\w+)?:\d+)"
        r"|level=(?:error|fatal)|\"(?:level|severity|levelname)\": ?\"(?:error|fatal"
        r"|critical)\"|\*\*\*ALERT|^(?:error|fatal):",
        "ERROR scripts.py:410 -- something",
        "#SBATCH --error=%x.out",
        "logging libraries",
        Rank.MARK,
    ),
    Signature(
        "mark.failed-words",
        Label.UNKNOWN,
        r"\b\d+/\d+\s+(?:Error|CrashLoopBackOff|Init:Error|RunContainerError)\b"
        r"|(?-i:\b(?:FAILED|ERRORED|CRASHED|ABORTED|FATAL|CRASH)\b)|\b(?:job|task|run|trial|pod"
        r"|worker|workers|worker group|process|container|actor|step|training|attempt|experiment"
        r"|script|program|command|rank|node|replica|child|launch|instance|replicatedjob"
        r"|evaluation|pipeline|cluster|stage|test|allocation|execution|backoff"
        r"|initiali[sz]ation|replicas)s?\b.{0,40}\b(?:failed|failing|crash(?:ed|es|ing)?"
        r"|errored|died|exited unexpectedly|exited abnormally|terminated abnormally|FAILED"
        r"|ERRORED|aborted|unhealthy|CrashLoopBackOff)\b|\bFailed to \w+|JobStatus\.FAILED"
        r"|BackoffLimitExceeded|CrashLoopBackOff|Back-off restarting|status(?: is"
        r"|:)? ?['\"]?(?:FAILED|ERROR|Failed|Error)\b|(?:^|\s)failed (?:with|to|due|because"
        r"|after|\()|An error occurred|Error occurred|internal error|went wrong"
        r"|could not (?:be )?(?:start|complete|recover|continue)|exited unexpectedly"
        r"|state[: =]+['\"]?(?:FAILED|ERROR|Error)\b|unexpectedly (?:exited|terminated|died"
        r"|crashed|stopped|closed)|\bJob .{0,30}failed\b",
        "Job 12 failed",
        "0 of 12 jobs done",
        "orchestrators",
        Rank.MARK,
    ),
    Signature(
        "mark.hang",
        Label.UNKNOWN,
        r"^Thread (?:0x)?[0-9a-f]+ \((?:idle|active)\b|\bpy-?spy dump\b|\b(?:hangs|freezes"
        r"|stalls|got stuck|gets stuck|is deadlocked|deadlocks?|hung)\b|does not (?:progress"
        r"|complete|finish|return|proceed)|is (?:stuck|hung|hanging|frozen|stalled)\b"
        r"|\b(?:hangs?|hung|stalled|froze|frozen)\b.{0,40}(?:at|for|on|in|after|with)\b"
        r"|no (?:progress|output|new (?:log|step)s?|log output|heartbeat|activity"
        r"|logs?)\b.{0,40}(?:for|since|in) |(?:stopped|not) (?:making progress|progressing"
        r"|advancing|responding|emitting)|\bstuck (?:at|in|on|for)\b|Timeout \(\d+:\d+:\d+\)!"
        r"|\b(?:stops?|stopped|dies|died|exits?|exited|quits?|terminates?|ended|crash(?:es|ed)?"
        r"|disappear\w*|vanish\w*) (?:\w+ )?(?:silently|unexpectedly|suddenly|abruptly|randomly"
        r"|without (?:any )?(?:error|trace|message|warning|log|output|reason|explanation)"
        r"|with no|for no|immediately|midway|in the middle)|never (?:returns|finish\w*|starts"
        r"|started|ends|completes|completed|progress\w*|reached|recovers)|keeps? waiting"
        r"|wait(?:s|ing)? forever|takes forever|not moving|nothing (?:happens|is printed|more)"
        r"|no more (?:output|logs|progress)|\bfreez\w+|\bstall(?:s|ed|ing)\b"
        r"|most recent call first|did not rule out|without (?:any )?progress|GPU util\w* (?:is "
        r"|at |dropped to )?0 ?%",
        "training is stuck at step 1200",
        "hang timeout: 900 s",
        "py-spy; faulthandler; chronicles",
        Rank.MARK,
        also=(Label.COLLECTIVE_HANG,),
    ),
    Signature(
        "mark.words",
        Label.UNKNOWN,
        r"\b(?:crash(?:ed|es)|killed|fails\b|(?:the|a|an|this|job|run|our|another) failure"
        r"|died\b|aborted|errors? out|got an error|gives? (?:an |me )?errors?|throws?"
        r"|broke down|is broken|unhealthy|unreachable|unresponsive|timed out|timing out"
        r"|was lost|were lost|interrupted|disconnected|shut(?:ting)? down|gave up|giving up"
        r"|could not|cannot proceed|unable to)\b",
        "the run crashed overnight",
        "the crash course begins",
        "prose",
        Rank.MARK,
    ),
)
