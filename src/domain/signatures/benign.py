"""What looks like a failure and is none: it takes words, lines or earlier lines out of the reading.

The rank of a guard is the highest rank of claim that it silences.
"""

from watchkeeper.domain.signatures.model import Label, Rank, Scope, Signature

_B = Label.BENIGN

PARTS = (
    Signature(
        "calm.zero-count",
        _B,
        r"\b(?:[\w-]* )?(?:errors?|err|failures?|failed|faults?|dropped|overruns|crash(?:es|ed)?|"
        r"restarts?|exceptions?|warnings?|timeouts?|retries|skipped|killed|evicted|preempt(?:ed|io"
        r"ns)|"
        r"dead|missing|corrupt(?:ed)?|unreachable|lost|nans?|infs?|nan iterations|skipped iteratio"
        r"ns|"
        r"unhealthy|aborted|lost ?heartbeats?|anomal(?:y|ies)|oom(?:s|_?kills?)?|bad|invalid|stuck|"
        r"oom_kill|errored|cancel\w+)(?:[ _](?:count|total|events?|tasks?|jobs?|pods?|nodes?|sampl"
        r"es?|"
        r"rows?|records?|workers?|iterations?|s))?[\"']?[ \t]*[:=]?[ \t]*\(?\b0(?:\.0+)?\b(?![.:/]"
        r"?\d)%?",
        "Link 3: Replay Errors: 0",
        "errors: 12",
        "counters of tools",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.none-of",
        _B,
        r"\bno (?!such|space|route|more|longer|module|available|kernel|device|cuda|gpu|tpu|host|no"
        r"des?\b|"
        r"accel|attrib|matching|valid|checkpoint|data|api|credential|free|offers|compatible)(?:[^."
        r";:\n]|"
        r"\.(?=\S)){0,90}\b(?:found|seen|detected|observed|reported|operation|events?|present|occu"
        r"rred|"
        r"logged|recorded|indication|sign|evidence)\b"
        r"|\b(?:no|(?<![.:\d])0|zero|without(?: any)?|free of|not any) (?:\w+ ){0,2}?(?:errors?|fa"
        r"ilures?|failed|"
        r"faults?|issues|problems?|crash(?:es)?|exceptions?|nans?|infs?|xids?|dead|preemptions?|"
        r"preempted|restarts?|oom\w*|timeouts?|evictions?|evicted|killed|unhealthy|corruption|corr"
        r"upt|"
        r"missing|skipped|lost|incidents?|anomalies|hangs?|stragglers?|retries|warnings?|errored|"
        r"divergence|spikes?|skips)\b|\bNo error\b|\bnot? (?:a )?(?:fatal|failure|error|problem)\b"
        r"|never (?:failed|crashed|hung)|No preemption victims found|error[- ]?free|\bDISABLED\b.{"
        r"0,30}"
        r"error",
        "No error this time.",
        "an error this time",
        "prose and tools",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.metric-name",
        _B,
        r"\b(?:\w*[_/ -])?(?:error|err)[_ -]?(?:rate|loss|mean|avg|norm|bars?|margin|threshold|tol"
        r"erance|"
        r"feedback|correction|budget|term|signal|metric|std|percent\w*)s?\b|\b(?:mean|squared|abso"
        r"lute|"
        r"relative|test|train|valid|validation|eval|dev|word|char|phone|label|token|top-?[15]|medi"
        r"an|"
        r"reconstruction|prediction|quanti[sz]ation|standard|rounding|rms|max|average|rel|abs|l[12"
        r"]|bit|"
        r"generali[sz]ation|calibration|training|final|total)[_ /-](?:\w+[_ /-])?err(?:or)?s?\b"
        r"(?= ?[:=,|]| \d|\)|$| is| of| on| per| rate)|\berrors?@|\b(?:test|train|val\w*|best|eval"
        r"|dev|mean|avg|min|max|cur\w*|last|final|current) errors?\b[:= ]+[\d.]|\b[\w/]+/(?:error|"
        r"err|failure|nan)"
        r"\w*[ =:]|\b(?:MSE|WER|CER|PER|ErrorRate|err)\b ?[:=]",
        "valid ErrorRate: 2.16e-02",
        "error: cannot open",
        "training loops",
        Rank.GENERIC,
        Scope.PART,
    ),
    Signature(
        "calm.listed-causes",
        _B,
        r"This can happen when a \(1\).*$|There are some potential root causes.*$|[Pp]ossible (?:r"
        r"oot )?"
        r"causes? (?:include|are).*$|\((?:OOM|SIGKILL)[^)]{0,80}etc\.?\)|This (?:typically|usually|"
        r"may|might|could|can) (?:indicates?|happens?|be (?:caused|due|because)|mean)[^\n]*$"
        r"|[Cc]ommon (?:causes|reasons)[^\n]*$|could be triggered by[^\n]*$|Compile with `?TORCH_U"
        r"SE_"
        r"[^\n]*$|For debugging consider passing[^\n]*$|CUDA kernel errors might be[^\n]*$|If rese"
        r"rved "
        r"but unallocated memory is[^\n]*$|\b[Hh]int: [^\n]*$|[Ii]f you (?:see|encounter|get|want|"
        r"need|"
        r"are|believe|do|have)\b[^\n]*$|[Pp]lease (?:check|refer|see|try|consider|report|make sure"
        r")\b"
        r"[^\n]*$|To (?:debug|avoid|fix|resolve|silence|disable|suppress) this[^\n]*$|for more (?:"
        r"information|details)[^\n]*$|in case of (?:\w+ ){0,3}(?:failure|error|crash|preemption|oo"
        r"m)\w*"
        r"|on[- _](?:failure|error|crash|preemption|interrupt)\b|(?:upon|after|before|when|wheneve"
        r"r|"
        r"unless|until) (?:an? |the )?(?:\w+ )?(?:failure|error|crash|preemption) (?:occurs|happen"
        r"s)"
        r"|(?:can|may|might|could|would) (?:\w+ )?(?:fail|crash|hang|be (?:killed|preempted|lost|"
        r"marked|evicted|interrupted|due|caused))\b[^\n]*|\bif (?:the|an?|any|some|your|one|it|the"
        r"re|this|"
        r"all)\b[^.\n]*|[Pp]lease try again(?: later)?|preempted or failed|\b(?:\d\)|\(\d\)) some "
        r"tasks"
        r"[^\n]*|Get rid of[^\n]*|problem deleting [^\n]*|no longer supported in future[^\n]*|will"
        r" be removed in[^\n]*",
        "This can happen when a (1) raylet crashes unexpectedly (OOM, preempted node, etc.)",
        "the raylet crashed",
        "Ray, PyTorch: boilerplate after a message",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.advice",
        _B,
        r"\b(?:whether to|by default|defaults? to|is used (?:to|for)|used (?:to|for|when)|cont"
        r"rols? (?:how|whether|when|the)|determines? (?:how|whether|when)|specif(?:y|ies) (?:h"
        r"ow|whether|when|the)|should be used|this (?:option|flag|setting|function|method|clas"
        r"s|test|example|section|document|page|guide|parameter|PR|patch|feature|metric|check|s"
        r"cript|tool)|for example|e\.g\b|in order to|how to|see (?:also|the docs?|`|https?)|re"
        r"fer to|recommend(?:ed|s)?|be sure to|press ctrl|Ctrl[-+ ]?C to|to (?:quit|stop|exit|"
        r"cancel|abort|interrupt)\b(?= \(|,|$| it| the (?:server|process))|use [`'\"-]|tips?:|"
        r"warning signs|best practices?|FAQ|Q:|known issues?)\b|\b(?:you|we|users?|one) (?:can"
        r"|may|should|must|need|want)\b",
        "You can stop a run: press Ctrl-C to quit, by default it saves first",
        "KeyboardInterrupt",
        "documentation in logs and texts",
        Rank.ROOT,
        Scope.SENTENCE,
    ),
    Signature(
        "calm.intended",
        _B,
        r"\b(?:avoid|prevent|detect(?:ing|ion|s\b|\b)|debug|diagnos\w+|mitigat\w+|"
        r"troubleshoot|catch(?:es|ing)?\b|recover(?:ing|s|y)? from|resilien\w+ (?:to|against)|prot"
        r"ect\w* "
        r"against|guard\w* against|tolerat\w+|surviv\w+|(?:test|check|watch|monitor|scan|look|wait"
        r"|listen|"
        r"poll)\w* for|in the event of|in case of|reacts? to|respond\w* to|simulat\w+|register\w* "
        r"(?:a )?(?:handler|signal|hook)\w*|install\w* (?:a )?(?:handler|signal)\w*|notif\w+ (?:on"
        r"|of|when)|"
        r"alerts? (?:on|for|when))\w* [^.;:\n]{0,80}",
        "guards against SIGTERM and prevents NCCL hangs",
        "watchdog caught a timeout",
        "documentation and settings",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.error-names",
        _B,
        r"\b(?:error|exception|failure|fault|crash|retry|timeout|preemption|oom|nan|signal|interru"
        r"pt)[ _-]"
        r"?(?:handl\w+|handler|tolerance|tolerant|detection|detector|recovery|policy|policies|repo"
        r"rting|"
        r"reports?|logs?|logging|checking|check|checks|file|dir|directory|callback|hook|threshold|"
        r"mode|"
        r"injection|prevention|limits?|budget|domain|window|level|monitor|manager|guard|watcher|fi"
        r"lter|"
        r"counter|stats?|behaviou?r)\b|raise_on_\w+|ignore_\w*errors?|fail[_-](?:fast|open|closed|"
        r"over|"
        r"slow)|max_?(?:failures|errors|retries|restarts)|restartPolicy|backoffLimit|kill[_-]on[_-"
        r"]bad"
        r"[_-]exit|\bKillOnBadExit|(?:error|fail|abort|kill|preempt|nan|oom|timeout)\w*[_-]?(?:ena"
        r"bled|"
        r"disabled)|anomaly[_ ]detect\w*[:= ]+(?:true|false|on|off)|PreemptMode",
        "ray: fault tolerance enabled, error handling: retry",
        "fault on node 3",
        "settings of many tools",
        Rank.GENERIC,
        Scope.PART,
    ),
)

LINES = (
    Signature(
        "calm.comment",
        _B,
        r"^\s*(?:#(?!\s*\d+ |\d)|//|/\*|\*\s|REM |;;)|^\s*(?:\+{1,3} |\$ |> ?\$ |%? ?sudo )",
        "# --kill-on-bad-exit=1: terminate a step if any task fails",
        "srun: error: n1: task 0: Killed",
        "shell scripts that are echoed",
        Rank.ROOT,
    ),
    Signature(
        "calm.source-code",
        _B,
        r"^\s*(?:raise |return |assert |if |elif |else:|for |while |try:|except\b|finally:|def |cl"
        r"ass |"
        r"import |from \S+ import|with |self\.|print\(|logger\.|echo |export |set -|trap |local |d"
        r"el |"
        r"async |await |yield |@|case |fi\b|done\b)(?!.*\b(?:No such file|not found)\b)",
        "    raise RendezvousClosedError",
        "RendezvousClosedError",
        "source lines of tracebacks",
        Rank.ROOT,
    ),
    Signature(
        "calm.register-factory",
        _B,
        r"Unable to register cu\w+ factory|Attempting to register factory|has already been "
        r"registered|already registered|computation placer already|absl::InitializeLog|oneDNN cust"
        r"om "
        r"operations|TF-TRT Warning|Unable to register|NUMA node read from SysFS had negative"
        r"|could not open file to read NUMA|This TensorFlow binary is optimized|duplicate registra"
        r"tion"
        r"|successful NUMA node|overriding allow_growth|Could not find (?:TensorRT|cuda drivers)"
        r"|None of the MLIR|Failed to load .{0,40}libnccl-net|NET/Plugin.{0,40}(?:No plugin|not fo"
        r"und|"
        r"Could not find)|No plugin found|Could not load .{0,30}plugin|NET/IB : No device found",
        "Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN",
        "Unable to find cuDNN",
        "TensorFlow; XLA; NCCL plugins",
        Rank.ROOT,
    ),
    Signature(
        "calm.allocator",
        _B,
        r"caller indicates that this is not a failure|Ignore above cudart dlerror|Could not load d"
        r"ynamic "
        r"library|Skipping registering GPU devices|The IPv6 network addresses of|\(not needed\)|no"
        r"t a failure, but|can be (?:safely )?ignored|safe(?:ly)? "
        r"(?:to )?ignored?|harmless|NCCL INFO (?!.*(?:closed|error|fail|timed? ?out|abort))|(?:whi"
        r"ch|this|that) is expected\b(?!"
        r".{0,30}(?:if|but|crash))|as expected|^\w+\{[^}]*\} 0(?:\.0)?\s*$|^# (?:HELP|TYPE) |(?-i:"
        r"\bPASSED\b)|"
        r"\bskipped, |nothing to do|informational",
        "ran out of memory trying to allocate 2.3GiB. The caller indicates that this is not a fai"
        "lure",
        "ran out of memory trying to allocate 2.3GiB",
        "TensorFlow allocators and loaders; NCCL",
        Rank.ROOT,
    ),
    Signature(
        "calm.commit-title",
        _B,
        r"^\s*(?:[-*] )?(?:\[[\w -]+\] ?)?(?:fix|add|handle|avoid|support|improve|allow|implement|"
        r"introduce|"
        r"refactor|bump|deprecate|feat|chore|prevent|ensure|document|docs|ci|style|perf)(?:ed|s|es"
        r"|d)?(?:\("
        r"[^)]*\))?!?:? (?!fail|error|timed)[\w`]",
        "fix: avoid a crash when the node is preempted",
        "fixed failed",
        "commit titles and change logs",
        Rank.ROOT,
    ),
    Signature(
        "calm.code",
        _B,
        r"^\s*(?:[\w.\[\]]+ ?(?:\+?=|:=) ?[\[({\"'f\w]|.*\)\s*\{$|.*(?:\bthrow new|catch ?\(|excep"
        r"t \w+|"
        r"logger\.\w+\(|log\.\w+\(|printf?\(|fmt\.|console\.|assert\w+\(|self\.assert|pytest\.|Rai"
        r"seError|"
        r"raises\())(?!.*\bTraceback\b).{0,200}[\[({:;,)\]\"']\s*$",
        "bad_markers = [",
        "status=503, body=upstream connect error",
        "source code",
        Rank.GENERIC,
    ),
    Signature(
        "calm.retry",
        _B,
        r"\bretry(?:ing)? (?:in|after|attempt|#|\d|request|with|the|once|again|\()|\bwill (?:be )?"
        r"retr"
        r"(?:y|ied)|\bRetrying\b|\btrying again\b|entering retry loop|\b(?:attempt|try|retry) ?#?"
        r"\d+ ?(?:/|of|out of) ?"
        r"\d+|\(?(?:attempt|retry|try) \d+\)?|backing off|next retry|retries? (?:left|remaining)|R"
        r"etry\("
        r"total=[1-9]|reconnecting|re-?trying|will reconnect|attempts? left; will restart|client-s"
        r"ide throttling",
        "W HTTP 503 on read, retrying in 2.1 s (attempt 1/5)",
        "retries exhausted, giving up",
        "HTTP clients",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.corrected",
        _B,
        r"AER: .{0,20}Corrected|severity=Corrected|\bcorrect(?:ed|able)\b.{0,20}(?:ECC|PCIe|memory|"
        r"error)|single[- ]bit (?:ecc|error)|SBE\b|\bCE\b.{0,30}(?:EDAC|memory)|EDAC.{0,40} CE ",
        "pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0",
        "uncorrected error",
        "Linux PCIe AER and EDAC",
        Rank.ROOT,
    ),
    Signature(
        "calm.skipped-step",
        _B,
        r"(?:OVERFLOW|overflow)!?.{0,60}(?:skipping|skipped|reducing|Attempted loss scale)|Gradien"
        r"t "
        r"overflow\.? +Skipping|Reducing loss scale|Skipping (?:step|update|batch|this batch).{0,6"
        r"0}(?:"
        r"overflow|inf|nan|non-?finite)|loss scale (?:reduced|lowered)|clipp(?:ed|ing).{0,30}(?:gr"
        r"ad|"
        r"norm)|Gradient clipping|grad\w* clip\w*",
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "overflow of the stack",
        "DeepSpeed; Apex amp; fairseq",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.shutdown-noise",
        _B,
        r"Exception ignored in|destroy_process_group\(\) was not called|process group has NOT been "
        r"destroyed|leaked (?:semaphore|shared_memory)|resource_tracker|at shutdown|sys\.meta_path"
        r" is "
        r"None, Python is likely shutting down|interpreter shutdown|Event loop is closed|PyThreadS"
        r"tate"
        r"|Unclosed (?:client session|connector)|coroutine .{0,40}was never awaited|Task was destr"
        r"oyed "
        r"but it is pending",
        "Exception ignored in: <function Pool.__del__ at 0x7f00>",
        "Exception in thread Thread-5:",
        "Python at its exit",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.deprecation",
        _B,
        r"(?:Deprecat\w+|Future|PendingDeprecation|Resource|Import|Runtime|Syntax|Bytes|Experiment"
        r"al|"
        r"Beta)Warning\b|is deprecated|has been deprecated|deprecat(?:ed|ion)|UserWarning: |"
        r"warnings\.warn",
        "FutureWarning: `torch.cuda.amp.autocast` is deprecated",
        "TypeError: bad operand",
        "Python warnings",
        Rank.GENERIC,
    ),
    Signature(
        "calm.optional",
        _B,
        r"(?:not (?:installed|found|available)|missing|unavailable|failed to import|could not impo"
        r"rt|"
        r"cannot import|No module named).{0,80}(?:optional|skipp(?:ed|ing)|fall(?:s|ing)? ?back|wi"
        r"ll (?:"
        r"not )?be (?:used|registered|disabled|ignored)|disabled|using (?:default|cpu|slow|pure)|"
        r"instead|ignor(?:ed|ing)|no-op)|will use (?:existing|default|cached|the)|continuing (?:an"
        r"yway|without)|(?:will not be (?:registered|available|used)|fall(?:s|ing)? ?"
        r"back (?:to|on)|skipping|ignoring|defaulting to|using default|optional).{0,80}(?:missing|"
        r"not "
        r"(?:installed|found|available)|unavailable)|falling back to|not found,? (?:using|creating|"
        r"initiali[sz]ing|starting|skip|downloading|generating|building)|(?:does not|doesn't) exis"
        r"t, "
        r"(?:creating|will be created|skip)",
        "Zarr-based strategies will not be registered because of missing packages",
        "missing package flash-attn",
        "libraries with optional parts",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.fresh-start",
        _B,
        r"(?:no|not find|not found|without)\b.{0,60}(?:from scratch|"
        r"random|start(?:ing)? (?:from|at) (?:step |iteration )?0|fresh|initiali[sz])|Checkpoint n"
        r"ot "
        r"found\. Init|(?:could|did) not find .{0,60}latest_checkpointed_iteration|will not load a"
        r"ny "
        r"checkpoints and will start from random|newly initialized: |should probably TRAIN this mo"
        r"del"
        r"|Some weights of .{0,80}(?:were not|are newly)|No checkpoint.{0,20}found.{0,30}start",
        "WARNING: could not find the metadata file latest_checkpointed_iteration.txt",
        "checkpoint step 900 not found",
        "Megatron-LM; transformers; Levanter",
        Rank.ROOT,
    ),
    Signature(
        "calm.backend-probe",
        _B,
        r"(?:INFO|DEBUG).{0,40}Unable to initialize backend|Unable to initialize backend .{1,20}: "
        r"module",
        "INFO:jax._src.xla_bridge:Unable to initialize backend 'rocm': module 'jaxlib' has no att"
        "ribute",
        "RuntimeError: Unable to initialize backend 'tpu'",
        "JAX xla_bridge.py",
        Rank.ROOT,
    ),
    Signature(
        "calm.drill",
        _B,
        r"\b(?:FAKING|faking|faked|FAKED|simulat(?:ed|ing)|inject(?:ed|ing)|fault injection|chaos|"
        r"dry[- "
        r"]?run|drill|planned|scheduled) .{0,40}(?:error|failure|fault|crash|preemption|kill|maint"
        r"enance|"
        r"restart|drain|outage|stop|reboot|shutdown|downtime)|expected (?:failure|error|exit)|test"
        r" of "
        r"(?:failure|restart|preemption)",
        "injecting fault: kill worker 3",
        "kill worker 3",
        "tests and drills",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.healthy-conditions",
        _B,
        r"(?:Memory|Disk|PID)Pressure\s+False|NetworkUnavailable\s+False|KubeletHas(?:Sufficient|N"
        r"o)\w+"
        r"|CorruptDockerOverlay\w*\s+False|KernelDeadlock\s+False|Frequent\w+Restart\s+False|\bhea"
        r"lthy\b"
        r"(?<!unhealthy)|Status: (?:OK|Success)|is dead: (?:0|false)|\bdead: 0\b|GPU 0*\d+: healthy"
        r"|passed\b.{0,20}(?:check|test)|(?:check|test)s? (?:has |have |was |were )?passed",
        "MemoryPressure   False   kubelet has sufficient memory available",
        "MemoryPressure   True    kubelet has insufficient memory",
        "Kubernetes node conditions",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.setting",
        _B,
        r"^\s*[-\w./ ]{0,50}?(?:error|err|fail|kill|abort|nan|inf|timeout|retr(?:y|ies)|restart|pr"
        r"eempt|"
        r"oom|crash|exception|signal|hang|evict|stall|dead|lost|cancel|interrupt|fault|xid|ecc|wat"
        r"chdog|"
        r"heartbeat|barrier|rendezvous|checkpoint)\w*[-\w./ ]{0,40}?[\"']?\s*[:=.]{1,60}\s*(?:true"
        r"|false|"
        r"none|null|yes|no|on|off|auto|enabled|disabled|default|warn|ignore|raise|\{[^}]*\}|[\d.]+"
        r" ?(?:s|"
        r"ms|sec|seconds|min|minutes|h|GB|GiB|MB|%)?|[\"'][^\"']*[\"']|inf|-1|\S+/\S+|requeue|susp"
        r"end|"
        r"cancel|never|always|onfailure|checkpoint)\s*[,;]?\s*$",
        "KillOnBadExit=1",
        "exit code: 1",
        "configurations that are echoed",
        Rank.GENERIC,
    ),
    Signature(
        "calm.flag",
        _B,
        r"^\s*(?:-{1,2}[a-z][\w-]*(?:[ =,]|$)|usage: |optional arguments|options:|\[-{1,2})"
        r"|^\s*#\s?(?:SBATCH|PBS|BSUB) |(?-i:^\s*(?:export )?[A-Z][A-Z0-9_]{3,}=\S*)(?:"
        r" |$)|^\s*[\"'][^\"']{2,80}[\"'],?\s*$|^\s*[-*] [\w /()]{3,60}: [A-Z]|Log \w+ \(not criti"
        r"cal\)",
        "NCCL_ASYNC_ERROR_HANDLING=1",
        "NCCL error: unhandled",
        "command lines that are echoed",
        Rank.ROOT,
    ),
)

RECOVERIES = (
    Signature(
        "recovered.resumed",
        _B,
        r"resuming normal operation|Network error resolved|(?:re-?connected|reconnection) (?:to|af"
        r"ter|"
        r"success\w*)|(?:retry|attempt|upload|request|read|write|download|connection|save|restore|"
        r"sync|"
        r"query|call|push|pull|fetch)\w*\b.{0,40}(?:succeeded|successful(?:ly)?|ok)\b(?! ?=)|succe"
        r"(?:ss|"
        r"eded)(?:ful|fully)? (?:after|on|at) (?:\d+|the|retry|attempt|second|third|try)|recovered"
        r" (?:"
        r"after|from|in|itself|on its own|success\w*|without)|recovery (?:completed|succeeded|fini"
        r"shed|"
        r"done|successful)|(?:connection|service|network|api|link|store|bucket|quota) (?:was |is |"
        r"has "
        r"been )?(?:restored|re-?established|back|recovered)|back to normal|SUCCESSFULLY FAKED|sel"
        r"f-"
        r"?healed|are retried|passed on (?:the )?(?:second|retry)|\d+ successful checkpoints|"
        r"all retries succeeded|is back online|resumed (?:successfully|training|streaming|normally"
        r")|"
        r"continuing (?:training|normally)|training (?:continues|continued|resumed|goes on)",
        "wandb: Network error resolved after 0:00:07.2, resuming normal operation.",
        "resuming from step 900",
        "clients that retry",
        Rank.SPECIFIC,
        Scope.TEXT,
        cancels=(
            Label.NETWORK,
            Label.WANDB_ERROR,
            Label.CONTROLLER_FAILURE,
            Label.UNKNOWN,
            Label.CHECKPOINT_ERROR,
            Label.COLLECTIVE_HANG,
        ),
    ),
    Signature(
        "recovered.retrying",
        _B,
        r"\bRetrying (?:in|request|after|again|the|once|\(|with|\d|to|connection)|entering retry l"
        r"oop|"
        r"will retry|backing off|retry(?:ing)? in \d",
        "Retrying request to /chat/completions in 0.852829 seconds",
        "retries exhausted",
        "HTTP clients",
        Rank.MARK,
        Scope.TEXT,
        cancels=(Label.NETWORK,),
    ),
    Signature(
        "recovered.capacity",
        _B,
        r"has been allocated resources|Successfully assigned|Granted job allocation|QuotaReserved["
        r"=: ]+"
        r"True|is now (?:running|ready|active)|(?:successfully|all) (?:provisioned|nodes? (?:are )"
        r"?ready|"
        r"workers (?:are )?ready)|Nodes? \S+ are ready for job|Created (?:pod|node|instance)|Admit"
        r"ted by",
        "srun: job 88120 has been allocated resources",
        "waiting to be allocated",
        "SLURM; Kubernetes",
        Rank.MARK,
        Scope.TEXT,
        cancels=(Label.CAPACITY_WEDGE,),
    ),
    Signature(
        "recovered.success",
        _B,
        r"\b(?:job|run|training|task|experiment|script|program|pipeline|conversion|evaluation|all "
        r"tasks|"
        r"workflow|trial|fit)s?\b.{0,60}\b(?:succeeded|completed successfully|finished successfull"
        r"y|"
        r"SUCCEEDED|completed\b|finished\b|done!)|\bSUCCEEDED\b|exit(?:ed)?(?: with)?(?: code| sta"
        r"tus)"
        r"[ :=]+0\b|exit_?code[\"']? ?[:=] ?0\b|ExitCode=0:0|State: ?COMPLETED|JobStatus\.SUCCEEDED"
        r"|Training (?:completed|finished|complete|done)|train(?:ing)? (?:run )?complete|W&B proce"
        r"ss to "
        r"finish\.* ?\(success\)|`Trainer\.fit` stopped: `max_|Fitting complete|reached max(?:imum"
        r")?[_ ]"
        r"steps|finished training",
        "Job 'raysubmit_x' SUCCEEDED",
        "3 of 5 epochs are over",
        "orchestrators; training loops",
        Rank.SYMPTOM,
        Scope.TEXT,
        cancels=(Label.NETWORK, Label.WANDB_ERROR, Label.UNKNOWN),
    ),
)
