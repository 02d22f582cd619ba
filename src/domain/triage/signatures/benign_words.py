"""Words that look like a failure and are none: they are taken out before a line is read."""

from watchkeeper.domain.triage.signatures.model import Label, Rank, Scope, Signature

_B = Label.BENIGN

_INFINITE = (
    r"[\"']?[ \t]{0,8}[:=][ \t]{0,4}[\"']?(?:(?:float|(?:torch\.)?tensor)\()?"
    r"(?:np\.|numpy\.|math\.|torch\.)?[\"']?[-+]?inf(?:inity)?\b[\"']?\)?"
)
"""The value of a name: infinite, and no NaN."""

_FINITE_LOSS = (
    r"(?<![a-z])loss[\"']?[ \t]{0,4}[:=]?[ \t]{0,4}-?\d[\d.]*(?:e[-+]?\d+)?(?=[\s,|;}]|$)"
)
_PERPLEXITY = r"(?<![a-z])(?:ppl|perplexity)" + _INFINITE

PARTS = (
    Signature(
        "calm.infinite-bound",
        _B,
        # What is clipped, or was before it, is measured; so are a CLIP model's loss, the losses
        # of a policy that is called `default_policy`, and losses with such a word in their name.
        r"(?:(?<![\w./-])(?:[\w./-]{0,60}[_/.-])?best(?!_of)(?:[\w./-]{0,60}"
        r"|(?: [a-z]{1,12}){0,2} (?:loss|metric|score|ppl|perplexity|value)(?: so far)?)"
        r"|(?<![\w-])(?:max[_-]?(?:grad(?:ient)?s?[_-]?|global[_-]?)*norm"
        r"|max[_-](?!margin)(?:\w{1,30}[_-])?(?:loss|kl|scale)|min[_-](?!snr)[\w-]{1,40}|\w{0,30}loss_min"
        r"|(?:\w{1,40}[_-])?(?:limit|threshold|patience|init|default(?![_-]policy))"
        r"(?:[_-][\w-]{1,40})?"
        r"|(?!\w*(?:loss|logit|unclip|clipped|before|pre_|after|post))"
        r"(?:\w{1,40}[_-])?clip(?:ping)?(?:[_-][\w-]{1,40})?))" + _INFINITE,
        "step 2600: loss=2.4 best_val_loss=inf",
        "step 2600: loss=inf best_val_loss=2.4",
        "training loops: records before the first value, bounds that are switched off",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.nan-switch",
        _B,
        r"(?<![a-z])(?:jax_)?debug_(?:nans|infs)[\"']?[ \t]{0,4}[:=,][ \t]{0,4}[\"']?"
        r"(?:true|false|none|on|off|\d)\b",
        "jax_debug_nans: False",
        "jax_debug_nans found a NaN",
        "configurations of JAX that are echoed",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.perplexity",
        _B,
        # exp() of a loss is infinite long before the loss is.
        _FINITE_LOSS + r"(?:(?!\bnan|\binf|error|exception|fail|memory)[\w \t.,:=|/+\"'-])"
        r"{0,80}?" + _PERPLEXITY + r"|" + _PERPLEXITY + r"(?=[^\n]{0,200}" + _FINITE_LOSS + r")",
        "step 5: loss=93.1 ppl: inf",
        "step 5: loss=inf ppl: inf",
        "training loops",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.path",
        _B,
        r"(?:(?<![\w/.~<])(?:~|\.{1,2})?/|\b[a-z][a-z0-9+]{1,9}://)"
        r"(?![^\s'\"`,;:()<>|\]]*/(?:oom(?:_kill)?|killed|preempted|timeout|failed|error|crashed"
        r"|evicted|aborted)(?:[\s'\"`,;:()<>|\]]|$))(?=[^\s'\"`,;:()<>|\]]*"
        r"(?:crash|fail|err|kill|abort|hang|hung|stuck|dead|lost|oom|nan|evict|preempt|timeout"
        r"|cancel|interrupt|denied|refus|invalid|conflict|unavailable|outage|fault|corrupt"
        r"|stop|term|disconnect))[^\s'\"`,;:()<>|\]]+",
        "wandb: Run data is saved locally in /home/a/crash_loop_7/wandb/offline-run-12",
        "wandb: the run crashed; its data is in /home/a/loop_7/wandb/offline-run-12",
        "names of folders and files; a last part that is just such a word is a reading",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.guessed-memory",
        _B,
        r"(?:(?<=SIGKILL)|(?<=SIGKILL\))|(?<=\b137)|(?<=\b137\))|(?<=signal 9)|(?<=signal 9\))"
        r"|(?<=\bkilled))(?: ?[,;:(-]| -)* ?(?:(?:this|it|which) (?:(?:is|was) )?)?"
        r"(?:possibly|probably|likely|potentially|maybe|perhaps"
        r"|may (?:be|have been)|might (?:be|have been)|could be)\b[^\n();.]{0,40}?\b(?:OOM"
        r"|out[- ]of[- ]memory|memory)\b(?![- ]?kill)[^\n();.]{0,40}\)?(?=\W*$)",
        "Exit code 137: killed by SIGKILL (possibly OOM or resource limit)",
        "Exit code 137: killed by the OOM killer",
        "Iris; guesses of orchestrators about a SIGKILL",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.zero-count",
        _B,
        r"\b(?:[\w-]* )?(?:errors?|err|failures?|failed|faults?|dropped|overruns|crash(?:es"
        r"|ed)?|restarts?|exceptions?|warnings?|timeouts?|retries|skipped|killed|evicted"
        r"|preempt(?:ed|ions)|dead|missing|corrupt(?:ed)?|unreachable|lost|nans?|infs?"
        r"|nan iterations|skipped iterations|unhealthy|aborted|lost ?heartbeats?|anomal(?:y"
        r"|ies)|oom(?:s|_?kills?)?|bad|invalid|stuck|oom_kill|errored|cancel\w+)(?:[ _](?:count"
        r"|total|events?|tasks?|jobs?|pods?|nodes?|samples?|rows?|records?|workers?|iterations?"
        r"|s))?[\"']?[ \t]*[:=]?[ \t]*\(?\b0(?:\.0+)?\b(?![.:/]?\d)%?",
        "Link 3: Replay Errors: 0",
        "errors: 12",
        "counters of tools",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.none-of",
        _B,
        r"\bno (?!such|space|route|more|longer|module|available|kernel|device|cuda|gpu|tpu|host"
        r"|nodes?\b|accel|attrib|matching|valid|checkpoint|data|api|credential|free|offers"
        r"|compatible)(?:[^.;:\n]|\.(?=\S)){0,90}\b(?:found|seen|detected|observed|reported"
        r"|operation|events?|present|occurred|logged|recorded|indication|sign|evidence)\b"
        r"|\b(?:no|(?<![-.:\w])0|zero|without(?: any)?|free of"
        r"|not any) (?:\w+ ){0,2}?(?:errors?|failures?|failed|faults?|issues|problems?"
        r"|crash(?:es)?|exceptions?|nans?|infs?|xids?|dead|preemptions?|preempted|restarts?"
        r"|oom\w*|timeouts?|evictions?|evicted|killed|unhealthy|corruption|corrupt|missing"
        r"|skipped|lost|incidents?|anomalies|hangs?|stragglers?|retries|warnings?|errored"
        r"|divergence|spikes?|skips)\b|\bNo error\b|\bnot? (?:a )?(?:fatal|failure|error"
        r"|problem)\b|never (?:failed|crashed|hung)|No preemption victims found|error[- ]?free"
        r"|\bDISABLED\b.{0,30}error",
        "No error this time.",
        "an error this time",
        "prose and tools",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.metric-name",
        _B,
        r"\b(?:\w*[_/ -])?(?:error|err)[_ -]?(?:rate|loss|mean|avg|norm|bars?|margin|threshold"
        r"|tolerance|feedback|correction|budget|term|signal|metric|std|percent\w*)s?\b"
        r"|\b(?:mean|squared|absolute|relative|test|train|valid|validation|eval|dev|word|char"
        r"|phone|label|token|top-?[15]|median|reconstruction|prediction|quanti[sz]ation"
        r"|standard|rounding|rms|max|average|rel|abs|l[12]|bit|generali[sz]ation|calibration"
        r"|training|final|total)[_ /-](?:\w+[_ /-])?err(?:or)?s?\b(?= ?[:=,|]| \d|\)|$| is| of"
        r"| on| per| rate)|\berrors?@|\b(?:test|train|val\w*|best|eval|dev|mean|avg|min|max"
        r"|cur\w*|last|final|current) errors?\b[:= ]+[\d.]|\b[\w/]+/(?:error|err|failure"
        r"|nan)\w*[ =:]|\b(?:MSE|WER|CER|PER|ErrorRate|err)\b ?[:=]",
        "valid ErrorRate: 2.16e-02",
        "error: cannot open",
        "training loops",
        Rank.GENERIC,
        Scope.PART,
    ),
    Signature(
        "calm.listed-causes",
        _B,
        r"This can happen when a \(1\).*$|There are some potential root causes.*$"
        r"|[Pp]ossible (?:root )?causes? (?:include|are).*$|\((?:OOM|SIGKILL)[^)]{0,80}etc\.?\)"
        r"|This (?:typically|usually|may|might|could|can) (?:indicates?|happens?|be (?:caused"
        r"|due|because)|mean)[^\n]*$|[Cc]ommon (?:causes|reasons)[^\n]*$"
        r"|could be triggered by[^\n]*$|Compile with `?TORCH_USE_[^\n]*$"
        r"|For debugging consider passing[^\n]*$|CUDA kernel errors might be[^\n]*$"
        r"|If reserved but unallocated memory is[^\n]*$|\b[Hh]int: [^\n]*$|[Ii]f you (?:see"
        r"|encounter|get|want|need|are|believe|do|have)\b[^\n]*$|[Pp]lease (?:check|refer|see"
        r"|try|consider|report|make sure)\b[^\n]*$|To (?:debug|avoid|fix|resolve|silence"
        r"|disable|suppress) this[^\n]*$|for more (?:information|details)[^\n]*$"
        r"|in case of (?:\w+ ){0,3}(?:failure|error|crash|preemption|oom)\w*|on[- _](?:failure"
        r"|error|crash|preemption|interrupt)\b|(?:upon|after|before|when|whenever|unless"
        r"|until) (?:an? |the )?(?:\w+ )?(?:failure|error|crash|preemption) (?:occurs|happens)"
        r"|(?:can|may|might|could|would) (?:\w+ )?(?:fail|crash|hang|be (?:killed|preempted"
        r"|lost|marked|evicted|interrupted|due|caused))\b[^\n]*|\bif (?:the|an?|any|some|your"
        r"|one|it|there|this|all)\b[^.\n]*|[Pp]lease try again(?: later)?|preempted or failed"
        r"|\b(?:\d\)|\(\d\)) some tasks[^\n]*|Get rid of[^\n]*|problem deleting [^\n]*"
        r"|no longer supported in future[^\n]*|will be removed in[^\n]*",
        "This can happen when a (1) raylet crashes unexpectedly (OOM, preempted node, etc.)",
        "the raylet crashed",
        "Ray, PyTorch: boilerplate after a message",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.advice",
        _B,
        r"\b(?:whether to|by default|defaults? to|is used (?:to|for)|used (?:to|for|when)"
        r"|controls? (?:how|whether|when|the)|determines? (?:how|whether|when)|specif(?:y"
        r"|ies) (?:how|whether|when)|should be used|this (?:option|flag|setting|function|method"
        r"|class|test|example|section|document|page|guide|parameter|PR|patch|feature|metric"
        r"|check|script|tool)|for example|e\.g\b|in order to|how to|see (?:also|the docs?|`"
        r"|https?)|refer to|recommend(?:ed|s)?|be sure to|press ctrl|Ctrl[-+ ]?C to|to (?:quit"
        r"|stop|exit|cancel|abort|interrupt)\b(?= \(|,|$| it| the (?:server|process))"
        r"|use [`'\"-]|tips?:|warning signs|best practices?|FAQ|known issues?)\b|\b(?:you|we"
        r"|users?|one) (?:can|may|should|must|need|want)\b",
        "You can stop a run: press Ctrl-C to quit, by default it saves first",
        "KeyboardInterrupt",
        "documentation in logs and texts",
        Rank.ROOT,
        Scope.SENTENCE,
    ),
    Signature(
        "calm.intended",
        _B,
        r"\b(?:avoid|prevent|detect(?:ing|ion|s\b|\b)|debug|diagnos\w+|mitigat\w+|troubleshoot"
        r"|catch(?:es|ing)?\b|recover(?:ing|s|y)? from|resilien\w+ (?:to|against)"
        r"|protect\w* against|guard\w* against|tolerat\w+|surviv\w+|(?:test|check|watch|monitor"
        r"|scan|look)\w* for|in the event of|in case of|reacts? to|respond\w* to|simulat\w+"
        r"|register\w* (?:a )?(?:handler|signal|hook)\w*|install\w* (?:a )?(?:handler"
        r"|signal)\w*|notif\w+ (?:on|of|when)|alerts? (?:on|for|when))\w* [^.;:\n]{0,80}",
        "guards against SIGTERM and prevents NCCL hangs",
        "watchdog caught a timeout",
        "documentation and settings",
        Rank.ROOT,
        Scope.PART,
    ),
    Signature(
        "calm.error-names",
        _B,
        r"\b(?:error|exception|failure|fault|crash|retry|timeout|preemption|oom|nan|signal"
        r"|interrupt)[ _-]?(?:handl\w+|handler|tolerance|tolerant|detection|detector|recovery"
        r"|policy|policies|reporting|reports?|logs?|logging|checking|check|checks|file|dir"
        r"|directory|callback|hook|threshold|mode|injection|prevention|domain"
        r"|(?:limits?|budget)(?!.{0,20}\b(?:exceed|reach|exhaust))"
        r"|window|level|monitor|manager|guard|watcher|filter|counter|stats?|behaviou?r)\b"
        r"|raise_on_\w+|ignore_\w*errors?|fail[_-](?:fast|open|closed|over|slow)"
        r"|(?<!exceeded )(?<!reached )(?<!exceeds )(?<!exhausted )(?<! its )"
        r"max_?(?:failures|errors|retries|restarts)"
        r"(?!.{0,20}(?:exceed|reach|exhaust))|restartPolicy|backoffLimit(?!Exceeded)"
        r"|kill[_-]on[_-]bad[_-]exit|\bKillOnBadExit|(?:error|fail|abort|kill|preempt|nan|oom"
        r"|timeout)\w*[_-]?(?:enabled|disabled)|anomaly[_ ]detect\w*[:= ]+(?:true|false|on|off)"
        r"|PreemptMode",
        "ray: fault tolerance enabled, error handling: retry",
        "fault on node 3",
        "settings of many tools",
        Rank.GENERIC,
        Scope.PART,
    ),
)
