"""Services around a run: trackers, orchestrators and their heads, and people who stop it."""

from watchkeeper.domain.facts.decisions import Outlook
from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_WANDB = "wandb client, wandb/errors and wandb/sdk"
_RAY = "Ray, GCS, dashboard and job manager"
_SKY = "SkyPilot, managed jobs controller"

TRACKERS = (
    Signature(
        "wandb.errors",
        Label.WANDB_ERROR,
        r"wandb\.(?:\S*\.)?(?:\w*Error|\w*Exception|CommError|UsageError|AuthenticationError)\b"
        r"|\bCommError\b|WandbAttachFailedError|MailboxError|MailboxHandleClosed"
        r"|HandleAbandonedError|ServiceStartTimeoutError|ServicePollForTokenError"
        r"|Run initialization has timed out|previously created and deleted|Error uploading run",
        "wandb.errors.CommError: Run initialization has timed out after 90.0 sec.",
        "wandb: Run data is saved locally",
        _WANDB,
        Rank.ROOT,
    ),
    Signature(
        "wandb.lines",
        Label.WANDB_ERROR,
        r"wandb: ?(?:ERROR|CRITICAL)|wandb: .{0,40}(?:Network error|Error while calling W&B"
        r"|W&B API|rate limit|filestream|upload (?:fail|error)|Failed to|could not|cannot"
        r"|permission denied|retry attempt)|(?:wandb|W&B|weights ?(?:&"
        r"|and) ?biases)\b.{0,80}(?:\berrors?:|\berror (?:while|upload|commun|when|in|from"
        r"|call)|fail(?:ed|ure|s)|timed? ?out|crash|unavailable|refus|denied|invalid|conflict"
        r"|\bhang|deadlock|(?:error|status|code|HTTP|Response \[) ?[45]\d\d|not logged in"
        r"|no API key|outage)|api_key not configured|resume='?must'?|fork_from.{0,40}(?:fail"
        r"|error|invalid)|Filestream .{0,40}(?:fatal|error)|wandb-core.{0,40}(?:exit|crash"
        r"|error)|filestream: fatal",
        "wandb: ERROR Error while calling W&B API: run 12 not found (<Response [404]>)",
        "wandb: View run at https://wandb.ai/a/b/runs/c",
        _WANDB,
        Rank.SPECIFIC,
    ),
    Signature(
        "wandb.step-behind",
        Label.WANDB_ERROR,
        r"Step \d+ is less than current|step must only increase|Step \d+ < \d+; dropping"
        r"|Tried to log to step \d+ that is less",
        "Step 12 is less than current W&B step 30. Dropping entry",
        "step 12 of 30",
        _WANDB,
        Rank.MARK,
    ),
    Signature(
        "tracker.others",
        Label.WANDB_ERROR,
        r"mlflow\.exceptions|MlflowException|RestException|(?:mlflow|comet(?:_ml)?|neptune"
        r"|clearml|tensorboard|aim|swanlab|trackio)\b.{0,80}(?:\berror|fail(?:ed|ure)"
        r"|timed? ?out|exception|unavailable|denied|unauthori|conflict|could not|cannot)"
        r"|COMET ERROR|NeptuneException|neptune\.\S*exceptions|ClearML.{0,30}ERROR"
        r"|Experiment(?:Not|Already)\w+",
        "mlflow.exceptions.RestException: RESOURCE_DOES_NOT_EXIST: Run not found",
        "mlflow tracking at http://a.b:5000",
        "MLflow; Comet; Neptune; ClearML",
        Rank.SPECIFIC,
    ),
)

CONTROLLERS = (
    Signature(
        "ray.gcs",
        Label.CONTROLLER_FAILURE,
        r"Failed to connect to GCS|GCS (?:is (?:down|dead|terminated|not)|server.{0,40}(?:dead"
        r"|died|down|crash|unavailable|not|exit)|has (?:died|crashed)|connection.{0,20}(?:lost"
        r"|fail))|gcs_rpc_client.{0,120}(?:lost|fail|timed|terminate|not responding|disconnect"
        r"|reconnect)|Lost (?:connection|reference).{0,20}to (?:the )?GCS|Ray processes died"
        r"|ray\.exceptions\.RpcError|Unable to connect to GCS|GCS may be"
        r"|gcs_server.{0,60}(?:exit|died|crash|killed|unreachable)"
        r"|raylet.{0,60}(?:disconnected from|cannot connect to|lost).{0,10}GCS"
        r"|Health ?check failed.{0,30}(?:GCS|gcs)",
        "Failed to connect to GCS within 60 seconds. The program will terminate.",
        "Connecting to existing Ray cluster at address: 10.0.0.2:6379",
        _RAY,
        Rank.SPECIFIC,
    ),
    Signature(
        "ray.jobs",
        Label.CONTROLLER_FAILURE,
        r"(?:job )?supervisor (?:actor )?.{0,40}(?:died|not running|could not be (?:started"
        r"|scheduled)|failed|unresponsive|crash)|JOB_SUPERVISOR_ACTOR_DIED"
        r"|No available agent to submit job|JobSupervisor.{0,60}(?:died|fail|dead)|(?:dashboard"
        r"|job) agent .{0,60}(?:not|fail|died|unavailable|timed)|Ray (?:head|dashboard"
        r"|cluster).{0,40}(?:died|is down|unreachable|crash|not (?:reachable|responding|ready"
        r"|running))|Ray Client.{0,60}(?:lost|disconnect|fail|timed)|head (?:node"
        r"|pod).{0,40}(?:restart|lost|gone|recreated)",
        "Unexpected error occurred: The actor died: job supervisor actor died",
        "job supervisor started",
        _RAY,
        Rank.SPECIFIC,
        also=(Label.NODE_FAILURE,),
    ),
    Signature(
        "sky.controller",
        Label.CONTROLLER_FAILURE,
        r"FAILED_CONTROLLER|[Cc]ontroller process .{0,60}(?:exited abnormally|is dead|died"
        r"|crash|killed)|JobsController|(?:jobs?|serve|spot|managed) controller .{0,60}(?:error"
        r"|fail|died|crash|down|not (?:running|reachable|up)|unreachable|is (?:down|dead"
        r"|stopped))|Unexpected error in .{0,30}controller|skylet.{0,40}(?:died|not running"
        r"|fail)|FAILED_PRECHECKS.{0,20}controller",
        "Controller process for job 201 has exited abnormally. Setting FAILED_CONTROLLER.",
        "controller process started",
        _SKY,
        Rank.ROOT,
    ),
    Signature(
        "k8s.api",
        Label.CONTROLLER_FAILURE,
        r"(?:kube-?)?apiserver.{0,80}(?:unavailable|down|refused|timed? ?out|not ready"
        r"|unreachable|error|overload)|Unable to connect to the server"
        r"|connection to the server .{0,80}(?:was refused|lost)|etcdserver: "
        r"|etcd.{0,60}(?:no leader|timed out|leader changed|failed|unavailable)"
        r"|leader election lost|leaderelection lost|failed to (?:renew|acquire) lease"
        r"|(?:operator|controller[- ]manager|kueue|jobset|scheduler|webhook|kubelet|containerd"
        r"|reconciler?)\b.{0,60}(?:crash\w*|panicked|is down|not (?:running|responding|ready"
        r"|available)|CrashLoopBackOff|died|unavailable|no endpoints|stuck|lost lease"
        r"|terminated unexpectedly)|failed calling webhook|no endpoints available for service"
        r"|Reconciler error|WaitForRecovery|the server (?:was unable|is currently unable"
        r"|has asked for)|failed to create pod sandbox|context deadline exceeded.{0,40}webhook"
        r"|kube-scheduler.{0,40}(?:down|lost)|etcd cluster is unavailable"
        r"|Internal error occurred: failed calling",
        "Error from server: etcdserver: leader changed",
        "apiserver: 200 OK",
        "Kubernetes API server, controllers and etcd",
        Rank.SPECIFIC,
    ),
    Signature(
        "slurm.controller",
        Label.CONTROLLER_FAILURE,
        r"Unable to contact slurm controller|slurmctld.{0,60}(?:down|not responding|fail|died"
        r"|unreachable|crash|is (?:not|DOWN))|slurmdbd.{0,60}(?:down|not responding|fail"
        r"|unreachable)|slurm_load_jobs error|Zero Bytes were transmitted"
        r"|Socket timed out on send/recv|slurm_receive_msg.{0,60}(?:timed|error)"
        r"|slurmdbd: agent queue|Header lengths are longer|Slurm backup controller in standby",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "slurmctld version 23.02.6 started",
        "SLURM, slurmctld",
        Rank.ROOT,
    ),
    Signature(
        "controller.words",
        Label.CONTROLLER_FAILURE,
        r"\b(?:controller|coordinator|orchestrator|scheduler|head node|master|supervisor|daemon"
        r"|agent|launcher|control plane)\b.{0,50}(?:crash(?:ed)?|died|is dead|is down|went down"
        r"|exited (?:abnormally|unexpectedly)|became unavailable|unreachable|not responding"
        r"|restarted unexpectedly|lost its (?:state|database|lease)|OOM\w*|no longer running"
        r"|zombie|not reachable|deadlock|stuck|wedged|outage)|zombie (?:coordinator|controller)"
        r"|lost (?:contact|connection) (?:with|to) (?:the )?(?:controller|master|coordinator"
        r"|scheduler)|(?:controller|master) (?:(?:database|db|sqlite).{0,40}(?:lock|corrupt"
        r"|error)|restarted)|Failed to (?:contact|reach|connect to) (?:the )?(?:controller"
        r"|master|coordinator|scheduler|api server|orchestrator)",
        "controller died and was restarted; job state lost",
        "controller: all tasks running",
        "Iris; Determined; dstack; chronicles",
        Rank.SPECIFIC,
    ),
)

STOPS = (
    Signature(
        "stop.interrupt",
        Label.USER_STOPPED,
        r"KeyboardInterrupt|(?:received|got|caught|by|signal|with|sent|due to|on)[: ]+(?:an? "
        r"|signal:? ?)?SIGINT\b|\bSIGINT\b ?(?:received|caught|\(2\)|:)|\^C\b"
        r"|Ctrl[-+ ]?C (?:received|pressed|detected|caught)|(?:pressed|hit|used|received|via"
        r"|with) Ctrl[-+ ]?C|signal 2\b|received (?:an )?interrupt"
        r"|exit(?:ed)? (?:with )?(?:code|status)[ :=]+130\b|Interrupted by user|user interrupt"
        r"|Aborted by user|Interrupt(?:ing|ed) .{0,20}by user|Got (?:SIGINT|signal: 2)"
        r"|aborting due to control-C|control-C event",
        "KeyboardInterrupt",
        "interrupt handlers installed",
        "Python; shells",
        Rank.SYMPTOM,
    ),
    Signature(
        "stop.by-user",
        Label.USER_STOPPED,
        r"CANCELLED AT \S+ by user|CANCELLED by user|(?:cancel(?:l?ed)?|terminat(?:ed|ing)"
        r"|stop(?:ped)?|kill(?:ed)?|abort(?:ed)?|delet(?:ed|ing)|paus(?:ed|ing)|requested"
        r"|shut ?down|interrupted|suspended)[\"' ]{1,3}(?:\w+ )?(?:by|at the request of"
        r"|on request of|from|manually by)[ :=]+(?:the |an? )?(?:user\b|user \d+|owner|admin\w*"
        r"|operator|human|person|uid|request|client request|@\w|[\w.]+@)|user[- ](?:requested"
        r"|initiated|cancel\w*|abort\w*|stop\w*|terminated)|(?:manually|intentionally"
        r"|deliberately) (?:stopped|killed|cancel\w*|terminated|aborted|interrupted|shut)"
        r"|(?:stopped|killed|cancel\w*|terminated|aborted) (?:manually|intentionally|on purpose"
        r"|deliberately)|on purpose|I (?:killed|stopped|cancel\w+) (?:it|the|this)|we (?:killed"
        r"|stopped|cancel\w+) (?:it|the|this)|CANCELLED by \d+|CANCELLED by uid"
        r"|Received (?:cancel|stop|delete) request|JOB_STATE_KILLED|\bscancel\b(?! ?[:=])"
        r"|ray job stop|Job .{0,60}was (?:stopped|cancel\w+)\b|sky (?:jobs )?cancel"
        r"|kubectl delete|Terminated by user|cancellation requested|user_stopped|USER_CANCELED"
        r"|EXPERIMENT_CANCELED|STOPPING_CANCELED|STATE_CANCELED|status:? ?=?\"?(?:CANCELLED"
        r"|CANCELED)|Stopped by user|keyboard interrupt|(?:Job|run|task) (?:is being"
        r"|was) cancel\w+|shutdown with strategy|Job (?:aborted(?! due to stage)|deleted)\b"
        r"|exit requested"
        r"|operator (?:stopped|cancel)",
        "Job 'raysubmit_x' was stopped by the user",
        "stop tokens: 2",
        "SLURM; Ray; SkyPilot; Determined; Kubernetes audit",
        Rank.SPECIFIC,
    ),
    Signature(
        "stop.planned",
        Label.USER_STOPPED,
        r"\[exiting program (?:after|at|due)|exiting program at iteration|exit[- _](?:duration"
        r"|signal|interval)\S* (?:reached|received)|reached exit.duration"
        r"|max_time.{0,20}reached|exit-on-file|kill.?switch (?:detected|found|file|file found)"
        r"|planned (?:stop|exit|shutdown)|Detected kill switch|stop file (?:found|detected)",
        "[exiting program after 1190.0 minutes] datetime: 2021-08-08 01:00:51",
        "exit_duration: 1190",
        "Megatron-LM training.py; BLOOM kill switch",
        Rank.SPECIFIC,
        outlook=Outlook.ASK,
    ),
)
