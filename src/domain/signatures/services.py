"""Services around a run: trackers, orchestrators and their heads, and people who stop it."""

from watchkeeper.domain.events_decisions import Outlook
from watchkeeper.domain.signatures.model import Label, Rank, Signature

_WANDB = "wandb client, wandb/errors and wandb/sdk"
_RAY = "Ray, GCS, dashboard and job manager"
_SKY = "SkyPilot, managed jobs controller"

TRACKERS = (
    Signature(
        "wandb.errors",
        Label.WANDB_ERROR,
        r"wandb(?:\.sdk\S*|\.errors|\.errors\.errors)*\.(?:\w*Error|\w*Exception|CommError|"
        r"UsageError|AuthenticationError)\b|\bCommError\b|WandbAttachFailedError|MailboxError"
        r"|MailboxHandleClosed|HandleAbandonedError|ServiceStartTimeoutError|ServicePollForTokenEr"
        r"ror"
        r"|Run initialization has timed out|previously created and deleted|Error uploading run",
        "wandb.errors.CommError: Run initialization has timed out after 90.0 sec.",
        "wandb: Run data is saved locally",
        _WANDB,
        Rank.ROOT,
    ),
    Signature(
        "wandb.lines",
        Label.WANDB_ERROR,
        r"wandb: ?(?:ERROR|CRITICAL)|wandb: .{0,40}(?:Network error|Error while calling W&B|"
        r"W&B API|rate limit|filestream|upload (?:fail|error)|Failed to|could not|cannot|"
        r"permission denied|retry attempt)|(?:wandb|W&B|weights ?(?:&|and) ?biases)\b.{0,80}"
        r"(?:\berror|fail(?:ed|ure|s)|timed? ?out|crash|unavailable|refus|denied|invalid|conflict|"
        r"\bhang|deadlock|40[0-9]\b|50[0-9]\b|not logged in|no API key|outage)|api_key not configu"
        r"red"
        r"|resume='?must'?|Step \d+ is less than current|step must only increase|Step \d+ < \d+; d"
        r"ropping|fork_from.{0,40}"
        r"(?:fail|error|invalid)|Filestream .{0,40}(?:fatal|error)|wandb-core.{0,40}(?:exit|crash|"
        r"error)|filestream: fatal|Tried to log to step \d+ that is less",
        "wandb: ERROR Error while calling W&B API: run 12 not found (<Response [404]>)",
        "wandb: View run at https://wandb.ai/a/b/runs/c",
        _WANDB,
        Rank.SPECIFIC,
    ),
    Signature(
        "tracker.others",
        Label.WANDB_ERROR,
        r"mlflow\.exceptions|MlflowException|RestException|(?:mlflow|comet(?:_ml)?|neptune|clearml|"
        r"tensorboard|aim|swanlab|trackio)\b.{0,80}(?:\berror|fail(?:ed|ure)|timed? ?out|exception|"
        r"unavailable|denied|unauthori|conflict|could not|cannot)|COMET ERROR|NeptuneException"
        r"|neptune\.\S*exceptions|ClearML.{0,30}ERROR|Experiment(?:Not|Already)\w+",
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
        r"Failed to connect to GCS|GCS (?:is (?:down|dead|terminated|not)|server.{0,40}(?:dead|die"
        r"d|"
        r"down|crash|unavailable|not|exit)|has (?:died|crashed)|connection.{0,20}(?:lost|fail))"
        r"|gcs_rpc_client.{0,120}(?:lost|fail|timed|terminate|not responding|disconnect|reconnect)"
        r"|Lost (?:connection|reference).{0,20}to (?:the )?GCS|Ray processes died"
        r"|ray\.exceptions\.RpcError|Unable to connect to GCS|GCS may be|gcs_server.{0,60}(?:exit|"
        r"died|crash|killed|unreachable)|raylet.{0,60}(?:disconnected from|cannot connect to|lost)"
        r".{0,"
        r"10}GCS|Health ?check failed.{0,30}(?:GCS|gcs)",
        "Failed to connect to GCS within 60 seconds. The program will terminate.",
        "Connecting to existing Ray cluster at address: 10.0.0.2:6379",
        _RAY,
        Rank.SPECIFIC,
    ),
    Signature(
        "ray.jobs",
        Label.CONTROLLER_FAILURE,
        r"(?:job )?supervisor (?:actor )?.{0,40}(?:died|not running|could not be (?:started|schedu"
        r"led)"
        r"|failed|unresponsive|crash)|JOB_SUPERVISOR_ACTOR_DIED|No available agent to submit job"
        r"|JobSupervisor.{0,60}(?:died|fail|dead)|(?:dashboard|job) agent .{0,60}(?:"
        r"not|fail|died|unavailable|timed)|Ray (?:head|dashboard|cluster).{0,40}(?:died|is down|"
        r"unreachable|crash|not (?:reachable|responding|ready|running))|Ray Client.{0,60}(?:lost|"
        r"disconnect|fail|timed)|head (?:node|pod).{0,40}(?:restart|lost|gone|recreated)",
        "Unexpected error occurred: The actor died: job supervisor actor died",
        "job supervisor started",
        _RAY,
        Rank.SPECIFIC,
        also=(Label.NODE_FAILURE,),
    ),
    Signature(
        "sky.controller",
        Label.CONTROLLER_FAILURE,
        r"FAILED_CONTROLLER|[Cc]ontroller process .{0,60}(?:exited abnormally|is dead|died|crash|"
        r"killed)|JobsController|(?:jobs?|serve|spot|managed) controller .{0,60}(?:error|fail|died|"
        r"crash|down|not (?:running|reachable|up)|unreachable|is (?:down|dead|stopped))"
        r"|Unexpected error in .{0,30}controller|skylet.{0,40}(?:died|not running|fail)"
        r"|FAILED_PRECHECKS.{0,20}controller",
        "Controller process for job 201 has exited abnormally. Setting FAILED_CONTROLLER.",
        "controller process started",
        _SKY,
        Rank.ROOT,
    ),
    Signature(
        "k8s.api",
        Label.CONTROLLER_FAILURE,
        r"(?:kube-?)?apiserver.{0,80}(?:unavailable|down|refused|timed? ?out|not ready|unreachable|"
        r"error|overload)|Unable to connect to the server|connection to the server .{0,80}(?:was "
        r"refused|lost)|etcdserver: |etcd.{0,60}(?:no leader|timed out|leader changed|failed|"
        r"unavailable)|leader election lost|leaderelection lost|failed to (?:renew|acquire) lease"
        r"|(?:operator|controller[- ]manager|kueue|jobset|scheduler|webhook|kubelet|containerd|"
        r"reconciler?)\b.{0,60}(?:crash\w*|panicked|is down|not (?:running|responding|ready|availa"
        r"ble)"
        r"|CrashLoopBackOff|died|unavailable|no endpoints|stuck|lost lease|terminated "
        r"unexpectedly)|failed calling webhook|no endpoints available for service|Reconciler error"
        r"|WaitForRecovery|the server (?:was unable|is currently unable|has asked for)"
        r"|failed to create pod sandbox|context deadline exceeded.{0,40}webhook|kube-scheduler.{0,"
        r"40}"
        r"(?:down|lost)|etcd cluster is unavailable|Internal error occurred: failed calling",
        "Error from server: etcdserver: leader changed",
        "apiserver: 200 OK",
        "Kubernetes API server, controllers and etcd",
        Rank.SPECIFIC,
    ),
    Signature(
        "slurm.controller",
        Label.CONTROLLER_FAILURE,
        r"Unable to contact slurm controller|slurmctld.{0,60}(?:down|not responding|fail|died|"
        r"unreachable|crash|is (?:not|DOWN))|slurmdbd.{0,60}(?:down|not responding|fail|unreachabl"
        r"e)"
        r"|slurm_load_jobs error|Zero Bytes were transmitted|Socket timed out on send/recv"
        r"|slurm_receive_msg.{0,60}(?:timed|error)|slurmdbd: agent queue|Header lengths are longer"
        r"|Slurm backup controller in standby",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "slurmctld version 23.02.6 started",
        "SLURM, slurmctld",
        Rank.ROOT,
    ),
    Signature(
        "controller.words",
        Label.CONTROLLER_FAILURE,
        r"\b(?:controller|coordinator|orchestrator|scheduler|head node|master|supervisor|daemon|"
        r"agent|launcher|control plane)\b.{0,50}(?:crash(?:ed)?|died|is dead|is down|went down|"
        r"exited (?:abnormally|unexpectedly)|became unavailable|unreachable|not responding|"
        r"restarted unexpectedly|lost its (?:state|database|lease)|OOM\w*|no longer running"
        r"|zombie|not reachable|deadlock|stuck|wedged|outage)|zombie (?:coordinator|controller)|"
        r"lost (?:contact|connection) (?:with|to) (?:the )?(?:controller|master|coordinator|schedu"
        r"ler)"
        r"|(?:controller|master) (?:(?:database|db|sqlite).{0,40}(?:lock|corrupt|error)|restarted)"
        r"|Failed to (?:contact|reach|connect to) (?:the )?(?:controller|master|coordinator|schedu"
        r"ler|"
        r"api server|orchestrator)",
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
        r"KeyboardInterrupt|(?:received|got|caught|by|signal|with|sent|due to|on)[: ]+(?:an? |sign"
        r"al:? ?)?"
        r"SIGINT\b|\bSIGINT\b ?(?:received|caught|\(2\)|:)|\^C\b|Ctrl[-+ ]?C (?:received|pressed|d"
        r"etected|"
        r"caught)|(?:pressed|hit|used|received|via|with) Ctrl[-+ ]?C|signal 2\b|received (?:an )?i"
        r"nterrupt"
        r"|exit(?:ed)? (?:with )?(?:code|status)[ :=]+130\b|Interrupted by user|user interrupt"
        r"|Aborted by user|Interrupt(?:ing|ed) .{0,20}by user|Got (?:SIGINT|signal: 2)",
        "KeyboardInterrupt",
        "interrupt handlers installed",
        "Python; shells",
        Rank.SYMPTOM,
    ),
    Signature(
        "stop.by-user",
        Label.USER_STOPPED,
        r"(?:cancel(?:l?ed)?|terminat(?:ed|ing)|stop(?:ped)?|kill(?:ed)?|abort(?:ed)?|delet(?:ed|i"
        r"ng)|"
        r"paus(?:ed|ing)|requested|shut ?down|interrupted|suspended)[\"' ]{1,3}(?:\w+ )?(?:by|at t"
        r"he "
        r"request of|on request of|from|manually by)[ :=]+(?:the |an? )?(?:user\b|user \d+|owner|a"
        r"dmin\w*|"
        r"operator|human|person|uid|request|client request|@\w|[\w.]+@)|user[- ](?:requested|initi"
        r"ated"
        r"|cancel\w*|abort\w*|stop\w*|terminated)|(?:manually|intentionally|deliberately) (?:stopp"
        r"ed|"
        r"killed|cancel\w*|terminated|aborted|interrupted|shut)|(?:stopped|killed|cancel\w*|termin"
        r"ated|"
        r"aborted) (?:manually|intentionally|on purpose|deliberately)|on purpose|I (?:killed|stopp"
        r"ed|"
        r"cancel\w+) (?:it|the|this)|we (?:killed|stopped|cancel\w+) (?:it|the|this)"
        r"|CANCELLED by \d+|CANCELLED by uid|Received (?:cancel|stop|delete) request|JOB_STATE_KIL"
        r"LED"
        r"|\bscancel\b(?! ?[:=])|ray job stop|Job .{0,60}was (?:stopped|cancel\w+)\b|sky (?:jobs )?"
        r"cancel|kubectl delete|Terminated by user|cancellation requested|user_stopped|USER_CANCEL"
        r"ED"
        r"|EXPERIMENT_CANCELED|STOPPING_CANCELED|STATE_CANCELED|status:? ?=?\"?(?:CANCELLED|CANCEL"
        r"ED)"
        r"|Stopped by user|keyboard interrupt|(?:Job|run|task) (?:is being|was) cancel\w+|shutdown"
        r" with strategy|Job (?:aborted|deleted)\b|exit requested|operator (?:stopped|cancel)",
        "Job 'raysubmit_x' was stopped by the user",
        "stop tokens: 2",
        "SLURM; Ray; SkyPilot; Determined; Kubernetes audit",
        Rank.SPECIFIC,
    ),
    Signature(
        "stop.planned",
        Label.USER_STOPPED,
        r"\[exiting program (?:after|at|due)|exiting program at iteration|exit[- _](?:duration|sig"
        r"nal|"
        r"interval)\S* (?:reached|received)|reached exit.duration|max_time.{0,20}reached"
        r"|exit-on-file|kill.?switch (?:detected|found|file|file found)|planned (?:stop|exit|shutd"
        r"own)"
        r"|Detected kill switch|stop file (?:found|detected)",
        "[exiting program after 1190.0 minutes] datetime: 2021-08-08 01:00:51",
        "exit_duration: 1190",
        "Megatron-LM training.py; BLOOM kill switch",
        Rank.SPECIFIC,
        outlook=Outlook.ASK,
    ),
)
