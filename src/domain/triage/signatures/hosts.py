"""Machines: their main memory, their disks, and the machines themselves."""

from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_KERNEL = "Linux, mm/oom_kill.c"
_RAY = "Ray, memory monitor and node manager"
_K8S = "Kubernetes, kubelet and node controller"
_SLURM = "SLURM, slurmstepd and slurmctld"

MEMORY = (
    Signature(
        "oom.kernel",
        Label.HOST_OOM,
        r"\boom[-_ ]kill|invoked oom|Out of memory: Kill(?:ed)? process"
        r"|Memory cgroup out of memory|oom_reaper|cgroup out-of-memory|oom-kill:constraint"
        r"|killed by (?:the )?(?:linux |kernel )?(?:oom|out[- ]of[- ]memory)|OOM killer",
        "kernel: Out of memory: Killed process 4242 (python) total-vm:90123456kB",
        "oomd: monitoring started",
        _KERNEL,
        Rank.ROOT,
    ),
    Signature(
        "oom.orchestrator",
        Label.HOST_OOM,
        r"\bOOM_?Killed\b|OUT_OF_ME(?:MORY)?\b(?!:? while| trying)|\bState: ?OUT_OF_MEMORY"
        r"|reason:? ?\"?OOM|(?:memory|mem) (?:usage )?(?:limit )?(?:exceeded|over the limit)"
        r"|exceed(?:ed|s|ing)? (?:its |the |job |step |requested "
        r"|container )*memory(?: resource)? (?:limit|request)|low on resource: memory"
        r"|The node was low on resource: memory|exceeded memory limit|memory limit exceeded"
        r"|MemoryPressure.{0,10}True|possible container OOM|beyond the .{0,30}memory limit",
        "Last State: Terminated  Reason: OOMKilled  Exit Code: 137",
        "MemoryPressure   False   kubelet has sufficient memory available",
        _K8S + "; SLURM",
        Rank.ROOT,
    ),
    Signature(
        "oom.ray",
        Label.HOST_OOM,
        r"killed due to (?:the node running low on )?memory|running low on memory"
        r"|Workers \(tasks / actors\) killed due to memory pressure"
        r"|ray\.exceptions\.OutOfMemoryError|exceeds the memory usage threshold"
        r"|RayOutOfMemoryError|ObjectStoreFullError|object store is full"
        r"|memory monitor.{0,40}kill",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "object store memory: 12 GiB",
        _RAY,
        Rank.ROOT,
    ),
    Signature(
        "oom.malloc",
        Label.HOST_OOM,
        r"Cannot allocate memory|std::bad_alloc|\bMemoryError\b|\bENOMEM\b|DefaultCPUAllocator"
        r"|can't allocate memory|unable to allocate .{0,30}(?:array|memory|bytes)"
        r"|java\.lang\.OutOfMemoryError|java heap space|JavaScript heap out of memory"
        r"|malloc (?:of .{0,20})?failed|mmap failed.{0,30}memory|ran out of (?:host|cpu|main"
        r"|system) memory|(?:host|system|cpu) (?:memory|ram) (?:is )?(?:exhausted|full)"
        r"|out of (?:RAM|host memory|system memory|cpu memory)|virtual memory exhausted"
        r"|not enough memory: you tried",
        "OSError: [Errno 12] Cannot allocate memory",
        "memory allocated: 12 GiB",
        "glibc; Python; PyTorch CPUAllocator; JVM",
        Rank.ROOT,
    ),
    Signature(
        "oom.pinned",
        Label.HOST_OOM,
        r"out of memory.{0,40}(?:pin_memory|pinned|page-locked)|(?:pinned"
        r"|page-locked) .{0,40}(?:failed|out of memory)|failed to allocate .{0,30}(?:host"
        r"|pinned) memory",
        "failed to allocate 2.0 GiB of pinned host memory",
        "pin_memory: true",
        "CUDA host memory",
        Rank.ROOT,
    ),
    Signature(
        "oom.shm",
        Label.HOST_OOM,
        r"unable to write to file </torch|insufficient shared memory|out of shared memory"
        r"|killed by signal: Bus error|unable to (?:open|write to|mmap"
        r"|resize) .{0,30}shared memory|/dev/shm.{0,60}(?:full|no space|too small|exhausted"
        r"|insufficient)|\bBus error\b|\bSIGBUS\b|shared memory .{0,30}(?:exhausted|is full"
        r"|too small|limit)",
        "RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. It is possible "
        "that dataloader's workers are out of shared memory.",
        "/dev/shm: 64G",
        "PyTorch, torch/utils/data/_utils/signal_handling.py",
        Rank.ROOT,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "oom.words",
        Label.HOST_OOM,
        r"\bout[- ]of[- ]memory\b|(?-i:\b(?:OOM|OOMs|OOMed|OOMing)\b)(?![- ]?(?:score"
        r"|kill\w* disabled|safe|guard))|\bran out of (?:memory|ram)\b|memory leak|(?:memory"
        r"|RSS|RAM)(?: usage| use)? (?:keeps |kept |is |was )?(?:grow|increas|leak"
        r"|climb)\w* .{0,40}(?:until|crash|kill|limit|steadily|linearly|unbounded|without)"
        r"|(?:ate|eats|consum\w+|us\w+) (?:up )?all (?:the |of the |available )?(?:memory|ram)"
        r"|memory exhaust\w+|exhaust\w* (?:host |all )?(?:memory|ram)|max rss exceeded"
        r"|killed for (?:exceeding|using) .{0,20}memory",
        "the process ran out of memory",
        "memory is fine",
        "prose; many programs",
        Rank.SPECIFIC,
        also=(Label.HBM_OOM,),
    ),
    Signature(
        "oom.possible",
        Label.HOST_OOM,
        r"(?:likely|probably|possibly|may have been|might be|due to) .{0,20}(?:an? )?(?:\bOOM\b"
        r"|out[- ]of[- ]memory)|DataLoader worker \(pid .{0,40}killed by signal: Killed"
        r"|(?:worker|process|pod|task|job|node|container)\b.{0,40}\bOOM(?:ed|s)?\b"
        r"|exit(?:ed)?.{0,20}137.{0,40}(?:\bOOM\b|memory)",
        "worker 3 died, probably OOM",
        "OOM score adjusted to 200",
        "PyTorch DataLoader; chronicles",
        Rank.SPECIFIC,
        also=(Label.UNKNOWN,),
    ),
)

DISK = (
    Signature(
        "disk.enospc",
        Label.DISK_FULL,
        r"No space left on device|\bENOSPC\b|\[Errno 28\]|disk (?:is )?full\b|os error 28"
        r"|not enough (?:free )?(?:disk )?space|insufficient (?:disk|storage) space|StorageFull"
        r"|out of disk(?: space)?|ran out of disk|file ?system (?:is )?full"
        r"|no (?:free )?space left|low disk space: .{0,20}\b0 ?(?:bytes|B|%)"
        r"|database or disk is full|out of inodes|no free inodes|(?:filesystem|disk|volume"
        r"|partition|mount|scratch)\b.{0,20}\b100 ?% (?:full|used)|insufficient space"
        r"|not enough space",
        "OSError: [Errno 28] No space left on device",
        "disk usage 95% on /data",
        "Linux errno; SQLite; HF hub",
        Rank.ROOT,
    ),
    Signature(
        "disk.quota",
        Label.DISK_FULL,
        r"Disk quota exceeded|\bEDQUOT\b|\[Errno 122\]|os error 122|quota exceeded on (?:disk"
        r"|file|home|storage|project)|storage quota.{0,40}exceed|over (?:your |its "
        r"|the )?(?:disk|storage|inode|file) quota|exceeded .{0,30}(?:disk|storage|inode"
        r"|file) quota|(?:bucket|object store).{0,40}quota exceeded"
        r"|QuotaExceeded.{0,40}(?:storage|bytes)|file count quota|inodes? quota",
        "OSError: [Errno 122] Disk quota exceeded",
        "Quota 'CPUS' exceeded. Limit: 24.0",
        "Linux errno; Lustre; GPFS",
        Rank.ROOT,
    ),
    Signature(
        "disk.ephemeral",
        Label.DISK_FULL,
        r"low on resource: ephemeral-storage|ephemeral[- ]storage.{0,60}(?:exceed|evict)"
        r"|exceed\w* .{0,40}ephemeral|DiskPressure\b[=: ]{1,12}True|DiskPressure.{0,40}evict"
        r"|Usage of EmptyDir volume .{0,60}exceeds|eviction.{0,40}(?:nodefs|imagefs"
        r"|DiskPressure)|NodeHasDiskPressure|FreeDiskSpaceFailed"
        r"|is over \d+% full.{0,60}(?:creation will fail|capacity)|OutOfDiskError",
        "Evicted: The node was low on resource: ephemeral-storage.",
        "DiskPressure   False   kubelet has no disk pressure",
        _K8S + "; Ray file system monitor",
        Rank.ROOT,
    ),
)

NODES = (
    Signature(
        "node.dead-ray",
        Label.NODE_FAILURE,
        r"node .{0,160}(?:marked|beem marked|been marked).{0,10}(?:as )?dead"
        r"|missed too many heartbeats|RAY_NODE_REMOVED|RAYLET_MARKED_DEAD|NodeDiedError"
        r"|marked as dead|(?:actor|task|worker|object).{0,60}because its node has died"
        r"|Owner's node has (?:crashed|died)|node has died|its node (?:has )?(?:died|crashed"
        r"|is dead)|NODE_DIED",
        "The node with node id: 7be1 has been marked dead because the detector has missed too "
        "many heartbeats from it.",
        "0 nodes are dead, 4 alive",
        _RAY,
        Rank.ROOT,
    ),
    Signature(
        "node.raylet",
        Label.NODE_FAILURE,
        r"raylet .{0,60}(?:died|crashed|exited unexpectedly|has terminated|is dead|not alive)"
        r"|local raylet .{0,60}(?:died|fail)|LocalRayletDiedError|Raylet is terminated"
        r"|heartbeat (?:has )?(?:been )?(?:lost|missed|expired|timed out) (?:from|for|by"
        r"|of) (?:node|host|worker|machine|actor|agent|executor|task)",
        "ray.exceptions.LocalRayletDiedError: The task's local raylet died.",
        "raylet started on 10.0.0.2",
        _RAY,
    ),
    Signature(
        "node.not-ready",
        Label.NODE_FAILURE,
        r"\b\d+/\d+\s+(?:Unknown|NodeLost)\s|NodeNotReady|node .{0,60}(?:is|was|became"
        r"|status is now:?|status:?) ?(?:now )?not ?ready|kubelet stopped posting node status"
        r"|node\.kubernetes\.io/(?:unreachable|not-ready)|NodeStatusUnknown"
        r"|node .{0,60}(?:is )?(?:unreachable|not responding|unresponsive|offline|lost|vanished"
        r"|disappeared|gone)\b|NodeLost|DeletionByTaintManager|node.{0,30}no longer exists"
        r"|Ready\s+(?:Unknown|False)\s|DeletingNode|node failure\b|lost node",
        "Node gke-pool-1 status is now: NodeNotReady",
        "Node gke-pool-1 status is now: NodeReady",
        _K8S,
        Rank.ROOT,
    ),
    Signature(
        "node.slurm",
        Label.NODE_FAILURE,
        r"NODE[_ ]FAIL|DUE TO NODE FAILURE|Node .{0,60}not responding, setting DOWN"
        r"|error: Nodes .{0,60}not responding|Killing job .{0,40}(?:node|due to node)"
        r"|slurmd.{0,40}(?:not responding|unexpectedly rebooted)|Node unexpectedly rebooted"
        r"|launch failed requeued held|Kill task failed|NHC:.{0,100}|job_?requeue.{0,30}node",
        "slurmstepd: error: *** JOB 77 ON c12 CANCELLED AT 2024-01-01T00:00:00 DUE TO NODE FAILURE",
        "NODELIST(REASON) (Priority)",
        _SLURM,
        Rank.ROOT,
    ),
    Signature(
        "node.host-error",
        Label.NODE_FAILURE,
        r"hostError|host ?error\b|compute\.instances\.(?:hostError|automaticRestart"
        r"|guestTerminate)|instance .{0,80}(?:impaired|retirement|underlying hardware"
        r"|hardware failure|degraded hardware|unresponsive)|underlying (?:hardware"
        r"|host).{0,40}(?:fail|retire|degrad|issue)|System ?status ?check.{0,20}fail"
        r"|scheduled for retirement|Guest agent .{0,30}lost"
        r"|maintenance event.{0,60}(?:terminated|killed|crashed)|VM .{0,40}(?:crashed|died"
        r"|terminated unexpectedly|was lost|stopped responding)|TPU .{0,60}(?:UNHEALTHY"
        r"|state REPAIRING)|unhealthy-(?:maintenance|tensorflow)|UNHEALTHY_(?:TENSORFLOW"
        r"|MAINTENANCE)",
        "compute.instances.hostError: Instance terminated by Compute Engine.",
        "onHostMaintenance: TERMINATE",
        "Google Compute Engine; AWS EC2; Azure",
        Rank.ROOT,
    ),
    Signature(
        "node.lost-words",
        Label.NODE_FAILURE,
        r"(?:host|machine|instance|slice)\b.{0,40}(?:lost heartbeat|heartbeat (?:timed out|timeout"
        r"|lost|expired)|expired after|is dead\b|was lost|has gone away|became unreachable"
        r"|stopped responding|unreachable)|(?:lost|missed|no) heartbeats? (?:from|for|of) (?:the )?"
        r"(?:host|machine|instance|slice|node|vm)\b|ExecutorLostFailure|lame workers|agent (?:was"
        r" lost|disconnected|is unreachable)|WORKER_FAILED|(?:host|node|machine) declared dead"
        r"|(?:machine|host|node|vm|instance) stopped responding"
        r"|lost connection to (?:the )?(?:node|host|machine|vm|agent|instance)"
        r"|rebooted unexpectedly|kernel panic|Oops: general protection|soft lockup|hard lockup"
        r"|node (?:crash|reboot)|blocked for more than \d+ seconds|KernelDeadlock[=: ]+True"
        r"|Lost executor|HeartbeatManager",
        "the host stopped responding, worker 3 was lost",
        "worker 3: connection is alive",
        "orchestrators; Linux kernel",
        Rank.SPECIFIC,
    ),
    Signature(
        "node.lost-process",
        Label.NODE_FAILURE,
        r"(?<!/job:)(?<!/job:jax_)(?:worker|executor|peer)\b.{0,40}(?:lost heartbeat|heartbeat"
        r" (?:timed out|timeout|lost|expired)|expired after|is dead\b|was lost|has gone away"
        r"|became unreachable|stopped responding|unreachable)|worker declared dead"
        r"|lost connection to (?:the )?worker|(?:lost|missed|no) heartbeats? (?:from|for|of)\b",
        "worker 3: heartbeat timed out, marking it lost",
        "/job:jax_worker/replica:0/task:5 heartbeat timeout",
        "orchestrators; a process that ended by its own error is lost to them as well",
        Rank.SYMPTOM,
    ),
    Signature(
        "node.supervisor",
        Label.NODE_FAILURE,
        r"(?<!: the )head node (?:has )?(?:died|crashed|is gone|is dead|was terminated)"
        r"|node was terminated|because the node (?:it was running on|on which).{0,30}(?:died"
        r"|is dead|was)|The actor'?s? node .{0,20}(?:died|dead)",
        "Head node is gone, and the job with it.",
        "head node: 10.0.0.2",
        _RAY,
        Rank.ROOT,
    ),
    Signature(
        "disk.io-error",
        Label.NODE_FAILURE,
        r"(?:Buffer |blk_update_request: |critical |EXT4-fs |XFS |nvme\d?.{0,30})(?:I/O error"
        r"|medium error|metadata I/O error|error \(device)|Remounting filesystem read-only"
        r"|Read-only file system|nvme .{0,40}(?:controller is down|timeout, (?:aborting|reset))",
        "blk_update_request: I/O error, dev nvme1n1, sector 12345",
        "nvme0n1: read 12 MB/s",
        "Linux block layer",
        Rank.SPECIFIC,
        also=(Label.DISK_FULL, Label.NETWORK),
    ),
)
