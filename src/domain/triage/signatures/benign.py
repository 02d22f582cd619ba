"""What looks like a failure and is none: it takes words, lines or earlier lines out of the reading.

The rank of a guard is the highest rank of claim that it silences.
"""

from watchkeeper.domain.triage.signatures.model import Label, Rank, Scope, Signature

_B = Label.BENIGN

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
        r"^\s*(?:raise |return |assert |if |elif |else:|for |while |try:|except\b|finally:|def "
        r"|class |import |from \S+ import|with |self\.|print\(|logger\.|echo |export |set -"
        r"|trap |local |del |async |await |yield |@|case |fi\b|done\b)(?!.*\b(?:No such file"
        r"|not found)\b)",
        "    raise RendezvousClosedError",
        "RendezvousClosedError",
        "source lines of tracebacks",
        Rank.ROOT,
    ),
    Signature(
        "calm.register-factory",
        _B,
        r"Unable to register cu\w+ factory|Attempting to register factory"
        r"|has already been registered|already registered|computation placer already"
        r"|absl::InitializeLog|oneDNN custom operations|TF-TRT Warning|Unable to register"
        r"|NUMA node read from SysFS had negative|could not open file to read NUMA"
        r"|This TensorFlow binary is optimized|duplicate registration|successful NUMA node"
        r"|overriding allow_growth|Could not find (?:TensorRT|cuda drivers)|None of the MLIR"
        r"|Failed to load .{0,40}libnccl-net|NET/Plugin.{0,40}(?:No plugin|not found"
        r"|Could not find)|No plugin found|Could not load .{0,30}plugin|NET/IB : No device found",
        "Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN",
        "Unable to find cuDNN",
        "TensorFlow; XLA; NCCL plugins",
        Rank.ROOT,
    ),
    Signature(
        "calm.allocator",
        _B,
        r"caller indicates that this is not a failure|Ignore above cudart dlerror"
        r"|Could not load dynamic library|Skipping registering GPU devices"
        r"|The IPv6 network addresses of|\(not needed\)|not a failure, but"
        r"|can be (?:safely )?ignored|safe(?:ly)? (?:to )?ignored?|harmless"
        r"|NCCL INFO (?!.*(?:closed|error|fail|timed? ?out|abort))|(?:which|this"
        r"|that) is expected\b(?!.{0,30}(?:if|but|crash))|as expected"
        r"|^\w+\{[^}]*\} 0(?:\.0)?\s*$|^# (?:HELP|TYPE) |(?-i:\bPASSED\b)|\bskipped, "
        r"|nothing to do|informational"
        r"|^\[W[\d :.]{0,24}socket\.cpp:\d+\] \[c10d\] The client socket",
        "ran out of memory trying to allocate 2.3GiB. The caller indicates that this is not a fai"
        "lure",
        "ran out of memory trying to allocate 2.3GiB",
        "TensorFlow allocators and loaders; NCCL",
        Rank.ROOT,
    ),
    Signature(
        "calm.commit-title",
        _B,
        r"^\s*(?:[-*] )?(?:\[[\w -]+\] ?)?(?:fix|add|handle|avoid|support|improve|allow"
        r"|implement|introduce|refactor|bump|deprecate|feat|chore|prevent|ensure|document|docs"
        r"|ci|style|perf)(?:ed|s|es|d)?(?:\([^)]*\))?!?:? (?!fail|error|timed)[\w`]",
        "fix: avoid a crash when the node is preempted",
        "fixed failed",
        "commit titles and change logs",
        Rank.ROOT,
    ),
    Signature(
        "calm.code",
        _B,
        # Its end is looked at first: few lines have it, and the rest is dear.
        r"^(?=.*[\[({:;,)\]\"']\s*$)\s*(?!\S*=\S+ .*\bmsg=|level=|(?:ts|time)=)"
        r"(?:[\w.\[\]]+ ?(?:\+?=|:=) ?(?=[\[({\"'f\w])|.*\)\s*\{$|.*(?:\bthrow new"
        r"|catch ?\(|except \w+|logger\.\w+\(|log\.\w+\(|printf?\(|fmt\.|console\.|assert\w+\("
        r"|self\.assert|pytest\.|RaiseError|raises\())(?!.*\bTraceback\b).{0,200}[\[({:;,)\]\"']"
        r"\s*$",
        "bad_markers = [",
        "status=503, body=upstream connect error",
        "source code",
        Rank.GENERIC,
    ),
    Signature(
        "calm.retry",
        _B,
        r"\bretry(?:ing)? (?:in|after|attempt|#|\d|request|with|the|once|again|\()"
        r"|\bwill (?:be )?retr(?:y|ied)|\bRetrying\b|\btrying again\b|entering retry loop"
        r"|\b(?:attempt|try|retry) ?#?\d+ ?(?:/|of|out of) ?\d+|\(?(?:attempt|retry|try) \d+\)?"
        r"|backing off|next retry|retries? (?:left|remaining)|Retry\(total=[1-9]|reconnecting"
        r"|re-?trying|will reconnect|attempts? left; will restart|client-side throttling",
        "W HTTP 503 on read, retrying in 2.1 s (attempt 1/5)",
        "retries exhausted, giving up",
        "HTTP clients",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.corrected",
        _B,
        r"AER: .{0,20}Corrected|severity=Corrected|\bcorrect(?:ed|able)\b.{0,20}(?:ECC|PCIe"
        r"|memory|error)|single[- ]bit (?:ecc|error)|SBE\b|\bCE\b.{0,30}(?:EDAC|memory)"
        r"|EDAC.{0,40} CE ",
        "pcieport 0000:00:03.0: AER: Corrected error received: 0000:00:03.0",
        "uncorrected error",
        "Linux PCIe AER and EDAC",
        Rank.ROOT,
    ),
    Signature(
        "calm.skipped-step",
        _B,
        r"(?:OVERFLOW|overflow)!?.{0,60}(?:skipping|skipped|reducing|Attempted loss scale)"
        r"|Gradient overflow\.? +Skipping|Reducing loss scale|Skipping (?:step|update|batch"
        r"|this batch).{0,60}(?:overflow|inf|nan|non-?finite)|loss scale (?:reduced|lowered)"
        r"|clipp(?:ed|ing).{0,30}(?:grad|norm)|Gradient clipping|grad\w* clip\w*",
        "OVERFLOW! Rank 0 Skipping step. Attempted loss scale: 65536, reducing to 32768",
        "overflow of the stack",
        "DeepSpeed; Apex amp; fairseq",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.not-nan",
        _B,
        # All that is called no number is denied, and nothing beside it tells of a failure.
        r"^(?=.*(?:\bnot|n't|\bnever|false|\? ?no)\b)(?!.*(?:error|exception|fail|violat|abort"
        r"|assertion|expected|diverg|explo|spik|rising|rises|increas|overflow|unstable|instab|crash"
        r"|kill|died|dead|lost|\boom\b|memory|timed? ?out|panic|fatal|\b(?:but|got|until|only)\b))"
        r"(?:(?!\bnans?\b|\binf(?:s|init\w+)?\b|finite).)*?"
        r"(?:(?:\bnot|n't|\bnever) (?:an? |any |be |been |become |became |turn(?:ed)? |go(?:ne)? "
        r"|went )?(?:to |into )?(?:nans?|-?inf(?:s|init[ey])?)\b(?!-)(?:(?:,| and| or| nor)+"
        r"(?: not)? (?:nans?|-?inf(?:s|init[ey])?)\b(?!-))*"
        r"|\bis (?:nan|inf(?:init[ey])?)(?:\s*[:=]\s*false\b|\? ?no\b))"
        r"(?:(?!\bnans?\b|\binf(?:s|init\w+)?\b|finite).)*$",
        "checking that loss is not NaN: ok",
        "AssertionError: loss is not NaN",
        "checks that passed; training loops",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.shutdown-noise",
        _B,
        r"Exception ignored in|AssertionError: can only test a child process"
        r"|destroy_process_group\(\) was not called"
        r"|process group has NOT been destroyed|leaked (?:semaphore|shared_memory)"
        r"|resource_tracker|at shutdown|sys\.meta_path is None, Python is likely shutting down"
        r"|interpreter shutdown|Event loop is closed|PyThreadState|Unclosed (?:client session"
        r"|connector)|coroutine .{0,40}was never awaited|Task was destroyed but it is pending",
        "Exception ignored in: <function Pool.__del__ at 0x7f00>",
        "Exception in thread Thread-5:",
        "Python at its exit",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.deprecation",
        _B,
        r"(?:Deprecat\w+|Future|PendingDeprecation|Resource|Import|Runtime|Syntax|Bytes"
        r"|Experimental|Beta)Warning\b|is deprecated|has been deprecated|deprecat(?:ed|ion)"
        r"|UserWarning: |warnings\.warn",
        "FutureWarning: `torch.cuda.amp.autocast` is deprecated",
        "TypeError: bad operand",
        "Python warnings",
        Rank.GENERIC,
    ),
    Signature(
        "calm.optional",
        _B,
        r"(?:not (?:installed|found|available)|missing|unavailable|failed to import"
        r"|could not import|cannot import|No module named).{0,80}(?:optional|skipp(?:ed|ing)"
        r"|fall(?:s|ing)? ?back|will (?:not )?be (?:used|registered|disabled|ignored)|disabled"
        r"|using (?:default|cpu|slow|pure)|instead|ignor(?:ed|ing)|no-op)|will use (?:existing"
        r"|default|cached|the)|continuing (?:anyway|without)|(?:will not be (?:registered"
        r"|available|used)|fall(?:s|ing)? ?back (?:to|on)|skipping|ignoring|defaulting to"
        r"|using default|optional).{0,80}(?:missing|not (?:installed|found|available)"
        r"|unavailable)|falling back to|not found,? (?:using|creating|initiali[sz]ing|starting"
        r"|skip|downloading|generating|building)|(?:does not|doesn't) exist, (?:creating"
        r"|will be created|skip)",
        "Zarr-based strategies will not be registered because of missing packages",
        "missing package flash-attn",
        "libraries with optional parts",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.fresh-start",
        _B,
        r"(?:no|not find|not found|without)\b.{0,60}(?:from scratch|random"
        r"|start(?:ing)? (?:from|at) (?:step |iteration )?0|fresh|initiali[sz])"
        r"|Checkpoint not found\. Init|(?:could|did) not find "
        r".{0,60}latest_checkpointed_iteration|will not load any checkpoints and will start "
        r"from random|newly initialized: |should probably TRAIN this model"
        r"|Some weights of .{0,80}(?:were not|are newly)|No checkpoint.{0,20}found.{0,30}start",
        "WARNING: could not find the metadata file latest_checkpointed_iteration.txt",
        "checkpoint step 900 not found",
        "Megatron-LM; transformers; Levanter",
        Rank.ROOT,
    ),
    Signature(
        "calm.backend-probe",
        _B,
        r"(?:INFO|DEBUG).{0,40}Unable to initialize backend"
        r"|Unable to initialize backend .{1,20}: module",
        "INFO:jax._src.xla_bridge:Unable to initialize backend 'rocm': module 'jaxlib' has no att"
        "ribute",
        "RuntimeError: Unable to initialize backend 'tpu'",
        "JAX xla_bridge.py",
        Rank.ROOT,
    ),
    Signature(
        "calm.drill",
        _B,
        r"\b(?:FAKING|faking|faked|FAKED|simulat(?:ed|ing)|inject(?:ed|ing)|fault injection"
        r"|chaos|dry[- ]?run|drill|planned|scheduled) .{0,40}(?:error|failure|fault|crash"
        r"|preemption|kill|maintenance|restart|drain|outage|stop|reboot|shutdown|downtime)"
        r"|\bexpected (?:failure|error|exit)|test of (?:failure|restart|preemption)",
        "injecting fault: kill worker 3",
        "kill worker 3",
        "tests and drills",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.healthy-conditions",
        _B,
        r"(?:Memory|Disk|PID)Pressure\s+False|NetworkUnavailable\s+False"
        r"|KubeletHas(?:Sufficient|No)\w+|CorruptDockerOverlay\w*\s+False"
        r"|KernelDeadlock\s+False|Frequent\w+Restart\s+False|\bhealthy\b(?<!unhealthy)"
        r"|Status: (?:OK|Success)|is dead: (?:0|false)|\bdead: 0\b|GPU 0*\d+: healthy"
        r"|passed\b.{0,20}(?:check|test)|(?:check|test)s? (?:has |have |was |were )?passed",
        "MemoryPressure   False   kubelet has sufficient memory available",
        "MemoryPressure   True    kubelet has insufficient memory",
        "Kubernetes node conditions",
        Rank.SPECIFIC,
    ),
    Signature(
        "calm.setting",
        _B,
        # A sentence that says that something failed may end as a setting does.
        r"^(?!.*(?-i:[A-Z]\w*(?:Error|Exception)): |\s*Killed: \d\s*$)"
        r"(?!.*\b(?:(?:exceed(?:ed|s)|exhausted|reached)"
        r" [a-z]|(?:failed|died|crashed|killed|aborted) (?:with|after|by|at|on|due|because) ))"
        r"\s*[-\w./ ]{0,50}?(?:error|err|fail|kill"
        r"|abort|nan|inf|timeout|retr(?:y|ies)|restart|preempt|oom|crash|exception|signal|hang"
        r"|evict|stall|dead|lost|cancel|interrupt|fault|xid|ecc|watchdog|heartbeat|barrier"
        r"|rendezvous|checkpoint)\w*[-\w./ ]{0,40}?[\"']?\s*[:=.]{1,60}\s*(?:true|false|none"
        r"|null|yes|no|on|off|auto|enabled|disabled|default|warn|ignore|raise|\{[^}]*\}"
        r"|[\d.]+ ?(?:s|ms|sec|seconds|min|minutes|h|GB|GiB|MB|%)?|[\"'][^\"']*[\"']|inf|-1"
        r"|\S+/\S+|requeue|suspend|cancel|never|always|onfailure|checkpoint)\s*[,;]?\s*$",
        "KillOnBadExit=1",
        "exit code: 1",
        "configurations that are echoed",
        Rank.GENERIC,
    ),
    Signature(
        "calm.flag",
        _B,
        r"^\s*(?:-{1,2}[a-z][\w-]*(?:[ =,]|$)|usage: |optional arguments|options:|\[-{1,2})"
        r"|^\s*#\s?(?:SBATCH|PBS|BSUB) |(?-i:^\s*(?:export )?[A-Z][A-Z0-9_]{3,}=\S*)(?: |$)"
        r"|^\s*[\"'][^\"']{2,80}[\"'],?\s*$|^\s*[-*] [\w /()]{3,60}: [A-Z]"
        r"|Log \w+ \(not critical\)",
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
        r"resuming normal operation|Network error resolved|(?:re-?connected|reconnection) (?:to"
        r"|after|success\w*)|(?:retry|attempt|upload|request|read|write|download|connection"
        r"|save|restore|sync|query|call|push|pull|fetch)\w*\b.{0,40}(?:(?<!not )\b(?:succeeded"
        r"|successful(?:ly)?)|[ :=\[(>'\"/]ok)\b(?! ?=)"
        r"|succe(?:ss|eded)(?:ful|fully)? (?:after|on|at) (?:\d+"
        r"|the|retry|attempt|second|third|try)|recovered (?:after|from|in|itself|on its own"
        r"|success\w*|without)|recovery (?:completed|succeeded|finished|done|successful)"
        r"|(?:connection|service|network|api|link|store|bucket|quota) (?:was |is "
        r"|has been )?(?:restored|re-?established|back|recovered)|back to normal"
        r"|SUCCESSFULLY FAKED|self-?healed|are retried|passed on (?:the )?(?:second|retry)"
        r"|\d+ successful checkpoints|all retries succeeded|is back online"
        r"|resumed (?:successfully|training|streaming|normally)|continuing (?:training"
        r"|normally)|training (?:continues|continued|resumed|goes on)",
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
        r"\bRetrying (?:in|request|after|again|the|once|\(|with|\d|to|connection)"
        r"|entering retry loop|will retry|backing off|retry(?:ing)? in \d",
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
        r"has been allocated resources|Successfully assigned|Granted job allocation"
        r"|QuotaReserved[=: ]+True|is now (?:running|ready|active)|(?:successfully"
        r"|all) (?:provisioned|nodes? (?:are )?ready|workers (?:are )?ready)"
        r"|Nodes? \S+ are ready for job|Created (?:pod|node|instance)|Admitted by",
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
        r"\b(?:job|run|training|task|experiment|script|program|pipeline|conversion|evaluation"
        r"|all tasks|workflow|trial|fit)s?\b.{0,60}\b(?:succeeded|completed successfully"
        r"|finished successfully|SUCCEEDED|completed\b|finished\b|done!)|\bSUCCEEDED\b"
        r"|exit(?:ed)?(?: with)?(?: code| status)[ :=]+0\b|exit_?code[\"']? ?[:=] ?0\b"
        r"|ExitCode=0:0|State: ?COMPLETED|JobStatus\.SUCCEEDED|Training (?:completed|finished"
        r"|complete|done)|train(?:ing)? (?:run )?complete|W&B process to finish\.* ?\(success\)"
        r"|`Trainer\.fit` stopped: `max_|Fitting complete|reached max(?:imum)?[_ ]steps"
        r"|finished training",
        "Job 'raysubmit_x' SUCCEEDED",
        "3 of 5 epochs are over",
        "orchestrators; training loops",
        Rank.SYMPTOM,
        Scope.TEXT,
        cancels=(Label.NETWORK, Label.WANDB_ERROR, Label.UNKNOWN),
    ),
)
