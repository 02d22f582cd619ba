"""Ranks that wait for each other: NCCL, RCCL, gloo, c10d, elastic, JAX coordination, ICI."""

from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_C10D = "PyTorch, ProcessGroupNCCL.cpp"
_NCCL = "NCCL, src/misc and src/transport"
_ELASTIC = "PyTorch, torch/distributed/elastic"
_JAX = "TSL coordination service; JAX jax/_src/distributed.py"

COLLECTIVES = (
    Signature(
        "nccl.watchdog",
        Label.COLLECTIVE_HANG,
        r"is setting up NCCL communicator|watchdog caught collective operation timeout"
        r"|collective operation timeout: WorkNCCL|Some NCCL operations have failed or timed out"
        r"|Timeout at NCCL work|NCCL (?:operation|collective|communicator).{0,40}timed? ?out"
        r"|WorkNCCL\(.{0,200}timed? ?out|WorkNCCL\(SeqNum=.{0,200}ran for \d+ milliseconds"
        r"|NCCL timeout|ncclCommWatchdog|collective (?:operation )?timed out",
        "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE) ran "
        "for 600017 milliseconds before timing out.",
        "NCCL watchdog started, timeout 600 s",
        _C10D,
        Rank.SYMPTOM,
    ),
    Signature(
        "nccl.heartbeat-monitor",
        Label.COLLECTIVE_HANG,
        r"ProcessGroupNCCL'?s? watchdog got stuck|watchdog thread (?:got stuck|is stuck"
        r"|is likely)|heartbeat monitor thread.{0,80}(?:terminat|timed out|stuck|abort)"
        r"|HeartbeatMonitor.{0,60}(?:no heartbeat|terminat)"
        r"|Could not acquire GIL within .{0,20}exit|TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC.{0,100}(?:s"
        r"tuck|hang)",
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress",
        "heartbeat monitor thread started",
        _C10D,
        Rank.SYMPTOM,
    ),
    Signature(
        "nccl.watchdog-died",
        Label.COLLECTIVE_HANG,
        r"NCCL watchdog thread terminated with exception",
        "[Rank 3] NCCL watchdog thread terminated with exception: Socket closed",
        "NCCL watchdog thread started",
        _C10D,
        Rank.SYMPTOM,
        also=(Label.NODE_FAILURE, Label.UNKNOWN),
    ),
    Signature(
        "nccl.remote-error",
        Label.COLLECTIVE_HANG,
        r"ncclRemoteError|ncclSystemError|NCCL error (?:in|at|:)|ncclInternalError"
        r"|is setting up NCCL communicator|unhandled (?:system"
        r"|cuda) error,? \(?(?:run with )?NCCL|unhandled system error"
        r"|NCCL WARN .{0,80}(?:timeout|timed out|closed by (?:remote )?peer"
        r"|peer may have exited)|remote process exited or there was a network error"
        r"|Call to (?:connect|recv|send|ibv_\w+) (?:to .{0,60})?(?:failed|timeout|timed out)"
        r"|Net/(?:Socket|IB) ?:.{0,100}(?:failed|error|timeout)|socketProgress.{0,60}(?:closed"
        r"|error)|RCCL error|DistBackendError|NCCL (?:failure|errors?\b)"
        r"|Connection closed by (?:localRank|remote peer)|got completion (?:from peer|with)"
        r"|Got async event|IBV_WC_\w+ERR",
        "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote "
        "process exited or there was a network error",
        "NCCL INFO NET/Socket : Using eth0",
        _NCCL,
        Rank.SYMPTOM,
        also=(Label.NODE_FAILURE,),
    ),
    Signature(
        "nccl.usage",
        Label.CONFIG_ERROR,
        r"NCCL error.{0,120}(?:invalid usage|invalid argument)|ncclInvalid(?:Usage|Argument)"
        r"|Bootstrap : no socket interface found|NCCL WARN .{0,30}no socket interface"
        r"|Unable to find address for",
        "NCCL error in: ProcessGroupNCCL.cpp:1269, invalid usage, NCCL version 2.18",
        "NCCL version 2.18 usage: 3 channels",
        _NCCL,
        also=(Label.COLLECTIVE_HANG,),
    ),
    Signature(
        "nccl.flight-recorder",
        Label.COLLECTIVE_HANG,
        r"(?:mismatch|missing|desync|not (?:all )?ranks? joined|stuck).{0,60}collective"
        r"|collective.{0,60}(?:mismatch|desync|missing ranks|not joined|different order)"
        r"|ranks? .{0,40}(?:did not|have not|has not|never|failed to) (?:join|enter|reach"
        r"|arrive|respond)|detected mismatch between collectives|collective fingerprint"
        r"|(?:did not|failed to|never|could not) reach (?:the )?barrier"
        r"|submitted to be reduced by subset|[Ss]talled ranks?"
        r"|are waiting for remainder of ranks|\bdesync(?:ed|hroni[sz]ed)? (?:rank|detected"
        r"|error)|RAS.{0,60}(?:INCOMPLETE|MISMATCH)|missing ranks?:? ?\[?\d"
        r"|communicator.{0,60}(?:hang|stuck)",
        "Detected mismatch between collectives on ranks 0 and 3",
        "all ranks joined",
        "PyTorch flight recorder; NCCL RAS",
        Rank.SYMPTOM,
    ),
    Signature(
        "c10d.store",
        Label.COLLECTIVE_HANG,
        r"DistStoreError|DistNetworkError|TCPStore.{0,80}(?:timed? ?out|closed|broken|fail"
        r"|recvValue)|Timed out after \d+ seconds waiting for clients"
        r"|socket timeout.{0,40}store|The client socket has timed out"
        r"|wait timeout after \d+ms, keys|failed to recv, got 0 bytes"
        r"|Stop_waiting response is expected|store->get.{0,60}(?:Connection|timeout)",
        "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4",
        "TCPStore listening on port 29500",
        "PyTorch, TCPStore.cpp",
        Rank.SYMPTOM,
    ),
    Signature(
        "gloo.timeout",
        Label.COLLECTIVE_HANG,
        r"gloo/transport.{0,200}(?:Timed out|Connection closed|Connection reset|error)"
        r"|\[.{0,20}gloo\S*\].{0,40}(?:Timed out|Connection (?:closed|reset))"
        r"|Gloo connectFullMesh|Timed out waiting \d+ms for (?:recv|send) operation",
        "RuntimeError: [gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:41",
        "backend gloo initialised",
        "gloo/transport/tcp",
        Rank.SYMPTOM,
    ),
    Signature(
        "c10d.barrier",
        Label.COLLECTIVE_HANG,
        r"monitored_?Barrier|barrier.{0,60}(?:timed? ?out|timeout|deadline|hang|hung|stuck"
        r"|failed)|timed? ?out.{0,40}(?:at|in|waiting for|on) .{0,30}barrier|wait(?:ed"
        r"|ing)? (?:at|in|on) .{0,20}(?:barrier|collective|all[ _-]?reduce).{0,30}(?:hour|min"
        r"|ever|\dh|\d ?s\b)",
        "Rank 0: monitoredBarrier timed out waiting for rank 5",
        "barrier passed in 0.2 s",
        "torch.distributed; TSL; Megatron",
        Rank.SYMPTOM,
    ),
    Signature(
        "elastic.rendezvous",
        Label.COLLECTIVE_HANG,
        r"Rendezvous(?:Timeout|Closed|Connection|State)?Error|RendezvousGracefulExit"
        r"|rendezvous.{0,60}(?:timed? ?out|timeout|failed|has been closed|could not)"
        r"|waiting for (?:all )?(?:workers|nodes|ranks|peers) to join"
        r"|node .{0,80}has failed to send a keep-?alive heartbeat|exit_barrier.{0,40}(?:fail"
        r"|timed)",
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
        "Rendezvous complete for workers. Result: restart_count=0",
        _ELASTIC,
        Rank.SYMPTOM,
    ),
    Signature(
        "jax.coordination",
        Label.COLLECTIVE_HANG,
        r"coordination service.{0,120}(?:error|timed? ?out|timeout|fail|unhealthy|heartbeat"
        r"|shut ?down|disconnect|terminat)|CoordinationService.{0,100}(?:error|timeout|fail)"
        r"|coordination_service_(?:agent|error)|client\.h:\d+\] Terminating process because"
        r"|DEADLINE_EXCEEDED.{0,100}(?:task|barrier|coordination|RegisterTask|topology"
        r"|heartbeat)|Barrier (?:timed out|failed)|PjRt\w*.{0,60}(?:timed? ?out"
        r"|waiting for all)|tasks? .{0,100}(?:are unhealthy|heartbeat timeout"
        r"|have? stopped sending heartbeats)|/job:\w+/replica:\d+/task:\d+.{0,120}(?:heartbeat "
        r"timeout|unhealthy|timed? ?out)",
        "DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::0. This usually happens "
        "because a task triggered the barrier too early or too slowly.",
        "Initializing JAX coordination service on port 8476",
        _JAX,
        Rank.SYMPTOM,
        also=(Label.NODE_FAILURE, Label.CONTROLLER_FAILURE),
    ),
    Signature(
        "jax.peers",
        Label.COLLECTIVE_HANG,
        r"TPU backend initialization is taking more than|Did you run your code on all TPU hosts"
        r"|multihost.{0,60}(?:timed? ?out|hang|mismatch)|sync_global_devices.{0,60}(?:timeout"
        r"|name mismatch|fail)|distributed\.initialize.{0,60}(?:timed? ?out|timeout|hang)"
        r"|unexpected peer in launch group|launch.?group.{0,30}mismatch|launch_id mismatch"
        r"|different launch id|topology discovery timed out"
        r"|Timed out waiting for .{0,40}(?:topolog|slice|peer|host|worker|rank)",
        "UserWarning: TPU backend initialization is taking more than 60.0 seconds. Did you run "
        "your code on all TPU hosts?",
        "TPU backend initialized in 12 s",
        _JAX,
        Rank.SYMPTOM,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "tpu.ici",
        Label.COLLECTIVE_HANG,
        r"megascale.{0,120}(?:timed? ?out|timeout|error|hang|hung|stuck|fail|abort|unavailable)"
        r"|MegaScale(?:Transport|Runtime)\w*.{0,80}(?:error|timeout|unhealthy)"
        r"|\bICI\b.{0,60}(?:timeout|timed out|hang|resilien|stuck)|slice health check failed"
        r"|DCN .{0,40}(?:timed? ?out|timeout)|barrier core.{0,40}(?:halt|fail)",
        "MegaScale runtime error: timed out waiting for peer slice 3",
        "megascale: 4 slices, 64 hosts",
        "libtpu, megascale runtime",
        Rank.SYMPTOM,
        also=(Label.NODE_FAILURE,),
    ),
    Signature(
        "tpu.execute-stuck",
        Label.COLLECTIVE_HANG,
        r"TPU Execute is taking a long time|rendezvous\.cc.{0,100}(?:may be stuck|stuck)"
        r"|This thread has been waiting for .{0,40} and may be stuck"
        r"|Termination timeout .{0,40}exceeded\. Exiting"
        r"|Expected .{0,40}threads to join the rendezvous",
        "This thread has been waiting for `all-reduce` for 10 seconds and may be stuck",
        "thread pool has been waiting for work",
        "XLA rendezvous.cc; TensorFlow tpu_client.cc",
        Rank.SYMPTOM,
    ),
    Signature(
        "hang.ranks",
        Label.COLLECTIVE_HANG,
        r"(?:all[ _-]?reduce|all[ _-]?gather|reduce[ _-]?scatter|all[ _-]?to[ _-]?all|broadcast"
        r"|collective|NCCL|RCCL|gloo|ranks?)\b.{0,60}(?:\bhangs?\b|\bhung\b|\bhanging\b"
        r"|deadlock|\bstuck\b|timed? out|timing out)|(?:\bhangs?\b|\bhung\b|\bhanging\b"
        r"|deadlock|\bstuck\b).{0,40}(?:all[ _-]?reduce|all[ _-]?gather|reduce[ _-]?scatter"
        r"|collective|NCCL|barrier|init_process_group)",
        "Rank 3 is stuck in all_reduce",
        "all_reduce took 3 ms",
        "chronicles of training runs",
        Rank.SYMPTOM,
    ),
    Signature(
        "hang.power",
        Label.COLLECTIVE_HANG,
        r"GPUs? .{0,60}100 ?(?:%|percent).{0,80}(?:low power|drew|draws|W (?:against|of)"
        r"|idle power|no progress|power)",
        "GPUs at 100% utilization, low power draw, no progress",
        "GPUs are at 100% of their clock",
        "post-mortems of silent hangs",
        Rank.SYMPTOM,
    ),
    Signature(
        "mpi.abort",
        Label.UNKNOWN,
        r"MPI_ABORT was invoked|mpirun (?:noticed|has exited)|prterun noticed"
        r"|Primary job\s+terminated normally, but",
        "mpirun noticed that process rank 3 with PID 77 on node a exited on signal 9 (Killed).",
        "mpirun --map-by node",
        "Open MPI",
        Rank.MARK,
    ),
)
