"""Machines: their main memory, their disks, and the machines themselves."""

from watchkeeper.domain.signatures.model import Label, Rank, Signature

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
        r"|exceed(?:ed|s|ing)? (?:its |the |job |step |requested |container )*memory"
        r"(?: resource)? (?:limit|request)|low on resource: memory"
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
        r"|RayOutOfMemoryError|ObjectStoreFullError|object store is full|memory monitor.{0,40}kill",
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
        r"|malloc (?:of .{0,20})?failed|mmap failed.{0,30}memory|ran out of (?:host|cpu|main|syste"
        r"m) "
        r"memory|(?:host|system|cpu) (?:memory|ram) (?:is )?(?:exhausted|full)|out of (?:RAM|host "
        r"memory|system memory|cpu memory)|virtual memory exhausted|not enough memory: you tried",
        "OSError: [Errno 12] Cannot allocate memory",
        "memory allocated: 12 GiB",
        "glibc; Python; PyTorch CPUAllocator; JVM",
        Rank.ROOT,
    ),
    Signature(
        "oom.pinned",
        Label.HOST_OOM,
        r"out of memory.{0,40}(?:pin_memory|pinned|page-locked)|(?:pinned|page-locked) .{0,40}"
        r"(?:failed|out of memory)|failed to allocate .{0,30}(?:host|pinned) memory",
        "failed to allocate 2.0 GiB of pinned host memory",
        "pin_memory: true",
        "CUDA host memory",
        Rank.ROOT,
    ),
    Signature(
        "oom.shm",
        Label.HOST_OOM,
        r"unable to write to file </torch|insufficient shared memory|out of shared memory|killed b"
        r"y signal: Bus error"
        r"|unable to (?:open|write to|mmap|resize) .{0,30}shared memory"
        r"|/dev/shm.{0,60}(?:full|no space|too small|exhausted|insufficient)|\bBus error\b|\bSIGBU"
        r"S\b"
        r"|shared memory .{0,30}(?:exhausted|is full|too small|limit)",
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
        r"\bout[- ]of[- ]memory\b|\bran out of (?:memory|ram)\b|memory leak|(?:memory|RSS|RAM)(?: "
        r"usage| use)?"
        r" (?:keeps |kept |is |was )?(?:grow|increas|leak|climb)\w* .{0,40}(?:until|crash|kill|lim"
        r"it|steadily|"
        r"linearly|unbounded|without)|(?:ate|eats|consum\w+|us\w+) (?:up )?all (?:the |of the |ava"
        r"ilable )?"
        r"(?:memory|ram)|memory exhaust\w+|exhaust\w* (?:host |all )?(?:memory|ram)|max rss exceed"
        r"ed|killed "
        r"for (?:exceeding|using) .{0,20}memory",
        "the process ran out of memory",
        "memory is fine",
        "prose; many programs",
        Rank.SPECIFIC,
        also=(Label.HBM_OOM,),
    ),
    Signature(
        "oom.possible",
        Label.HOST_OOM,
        r"(?:likely|probably|possibly|may have been|might be|due to) .{0,20}(?:an? )?"
        r"(?:\bOOM\b|out[- ]of[- ]memory)|DataLoader worker \(pid .{0,40}killed by signal: Killed"
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
        r"|out of disk(?: space)?|ran out of disk|file ?system (?:is )?full|no (?:free )?space left"
        r"|low disk space: .{0,20}\b0 ?(?:bytes|B|%)|database or disk is full|out of inodes"
        r"|no free inodes|(?:filesystem|disk|volume|partition|mount|scratch)\b.{0,20}\b100 ?% (?:f"
        r"ull|used)|insufficient space|not enough space",
        "OSError: [Errno 28] No space left on device",
        "disk usage 95% on /data",
        "Linux errno; SQLite; HF hub",
        Rank.ROOT,
    ),
    Signature(
        "disk.quota",
        Label.DISK_FULL,
        r"Disk quota exceeded|\bEDQUOT\b|\[Errno 122\]|os error 122|quota exceeded on (?:disk|file|"
        r"home|storage|project)|storage quota.{0,40}exceed"
        r"|over (?:your |its |the )?(?:disk|storage|inode|file) quota|exceeded .{0,30}(?:disk|"
        r"storage|inode|file) quota|(?:bucket|object store).{0,40}quota exceeded"
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
        r"|Usage of EmptyDir volume .{0,60}exceeds|eviction.{0,40}(?:nodefs|imagefs|DiskPressure)"
        r"|NodeHasDiskPressure|FreeDiskSpaceFailed|is over \d+% full.{0,60}(?:creation will fail|"
        r"capacity)|OutOfDiskError",
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
        r"node .{0,160}(?:marked|beem marked|been marked).{0,10}(?:as )?dead|missed too many "
        r"heartbeats|RAY_NODE_REMOVED|RAYLET_MARKED_DEAD|NodeDiedError|marked as dead"
        r"|(?:actor|task|worker|object).{0,60}because its node has died|Owner's node has (?:crashe"
        r"d|"
        r"died)|node has died|its node (?:has )?(?:died|crashed|is dead)|NODE_DIED",
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
        r"|heartbeat (?:has )?(?:been )?(?:lost|missed|expired|timed out) (?:from|for|by|of) "
        r"(?:node|host|worker|machine|actor|agent|executor|task)",
        "ray.exceptions.LocalRayletDiedError: The task's local raylet died.",
        "raylet started on 10.0.0.2",
        _RAY,
    ),
    Signature(
        "node.not-ready",
        Label.NODE_FAILURE,
        r"NodeNotReady|node .{0,60}(?:is|was|became|status is now:?|status:?) ?(?:now )?not ?ready"
        r"|kubelet stopped posting node status|node\.kubernetes\.io/(?:unreachable|not-ready)"
        r"|NodeStatusUnknown|node .{0,60}(?:is )?(?:unreachable|not responding|unresponsive|offline"
        r"|lost|vanished|disappeared|gone)\b|NodeLost|DeletionByTaintManager|node.{0,30}no longer "
        r"exists|Ready\s+(?:Unknown|False)\s|DeletingNode|node failure\b|lost node",
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
        r"hostError|host ?error\b|compute\.instances\.(?:hostError|automaticRestart|guestTerminate)"
        r"|instance .{0,80}(?:impaired|retirement|underlying hardware|hardware failure|degraded "
        r"hardware|unresponsive)|underlying (?:hardware|host).{0,40}(?:fail|retire|degrad|issue)"
        r"|System ?status ?check.{0,20}fail|scheduled for retirement|Guest agent .{0,30}lost"
        r"|maintenance event.{0,60}(?:terminated|killed|crashed)|VM .{0,40}(?:crashed|died|"
        r"terminated unexpectedly|was lost|stopped responding)|TPU .{0,60}(?:UNHEALTHY|"
        r"state REPAIRING)|unhealthy-(?:maintenance|tensorflow)|UNHEALTHY_(?:TENSORFLOW|MAINTENANC"
        r"E)",
        "compute.instances.hostError: Instance terminated by Compute Engine.",
        "onHostMaintenance: TERMINATE",
        "Google Compute Engine; AWS EC2; Azure",
        Rank.ROOT,
    ),
    Signature(
        "node.lost-words",
        Label.NODE_FAILURE,
        r"(?:worker|host|machine|instance|slice|executor|peer)\b.{0,40}(?:lost heartbeat|"
        r"heartbeat (?:timed out|timeout|lost|expired)|expired after|is dead\b|was lost|has gone a"
        r"way|"
        r"became unreachable|stopped responding|unreachable)"
        r"|(?:lost|missed|no) heartbeats? (?:from|for|of)\b|ExecutorLostFailure|lame workers"
        r"|agent (?:was lost|disconnected|is unreachable)|WORKER_FAILED"
        r"|(?:host|node|machine|worker) declared dead|(?:machine|host|node|vm|instance) stopped re"
        r"sponding|lost connection to (?:the )?(?:node|host|worker|machine|vm|agent|instance)|rebo"
        r"oted unexpectedly"
        r"|kernel panic|Oops: general protection|soft lockup|hard lockup|node (?:crash|reboot)"
        r"|blocked for more than \d+ seconds|KernelDeadlock[=: ]+True|Lost executor|HeartbeatManag"
        r"er",
        "worker 3: heartbeat timed out, marking it lost",
        "worker 3: connection is alive",
        "orchestrators; Linux kernel",
        Rank.SPECIFIC,
    ),
    Signature(
        "node.supervisor",
        Label.NODE_FAILURE,
        r"head node (?:has )?(?:died|crashed|is gone|is dead|was terminated)|node was terminated"
        r"|because the node (?:it was running on|on which).{0,30}(?:died|is dead|was)"
        r"|The actor'?s? node .{0,20}(?:died|dead)",
        "Head node is gone, and the job with it.",
        "head node: 10.0.0.2",
        _RAY,
        Rank.ROOT,
    ),
    Signature(
        "disk.io-error",
        Label.NODE_FAILURE,
        r"(?:Buffer |blk_update_request: |critical |EXT4-fs |XFS |nvme\d?.{0,30})(?:I/O error|"
        r"medium error|metadata I/O error|error \(device)|Remounting filesystem read-only"
        r"|Read-only file system|nvme .{0,40}(?:controller is down|timeout, (?:aborting|reset))",
        "blk_update_request: I/O error, dev nvme1n1, sector 12345",
        "nvme0n1: read 12 MB/s",
        "Linux block layer",
        Rank.SPECIFIC,
        also=(Label.DISK_FULL, Label.NETWORK),
    ),
)
