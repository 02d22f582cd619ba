"""Resources that cannot be had, and resources that are taken back."""

from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_GCP = "Google Compute Engine and Cloud TPU API"
_K8S = "Kubernetes, kube-scheduler and cluster-autoscaler"
_KUEUE = "Kueue, pkg/scheduler"
_SLURM = "SLURM, squeue reasons and slurmctld"

CAPACITY = (
    Signature(
        "capacity.stock-out",
        Label.CAPACITY_WEDGE,
        r"no more capacity|ZONE_RESOURCE_POOL_EXHAUSTED|RESOURCE_POOL_EXHAUSTED|stock-?out"
        r"|does not have enough resources available|resources? (?:is "
        r"|are )?(?:currently )?unavailable in|InsufficientInstanceCapacity"
        r"|insufficient (?:\S+ )?(?:instance )?capacity|InsufficientReservedInstanceCapacity"
        r"|(?:Allocation|ZonalAllocation)(?:Request)?Failed|Overconstrained(?:Zonal)?AllocationRequest"
        r"|SkuNotAvailable|(?:not"
        r"|n't) (?:have )?(?:enough|sufficient) (?:\w+ )?(?:capacity|resources)|(?:could not"
        r"|cannot|unable to) (?:allocate|find|get|acquire|obtain) .{0,30}(?:gpus?|tpus?|nodes?"
        r"|machines?|instances?|chips?|slices?)\b.{0,20}(?:only|requested|available|:|free)"
        r"|no (?:spot |available )?capacity|UnfulfillableCapacity|MaxSpotInstanceCountExceeded"
        r"|capacity(?:-| )(?:not[- ]available|oversubscribed|unavailable|is not available)"
        r"|out of capacity|lack of capacity|Insufficient reservation|no (?:gpus?|tpus?"
        r"|instances?|offers?|machines?|nodes?|hosts?) (?:is |are |was "
        r"|were )?(?:currently )?(?:available|free)\b|there are not enough (?:free "
        r"|idle )?(?:gpus|tpus|nodes|slots|resources)|ResourcesUnavailableError"
        r"|FAILED_TO_START_DUE_TO_NO_CAPACITY",
        'There is no more capacity in the zone "europe-west4-a"',
        "node capacity: 8 GPUs",
        _GCP + "; AWS EC2; Azure",
        Rank.ROOT,
    ),
    Signature(
        "capacity.quota",
        Label.CAPACITY_WEDGE,
        r"Quota .{0,80}exceeded|QUOTA_EXCEEDED|exceeded quota"
        r"|quota (?:limit )?(?:has been )?(?:exceeded|reached)|(?:Vcpu|Instance"
        r"|Max\w*)LimitExceeded|insufficient (?:unused )?quota|exceeding approved .{0,40}quota"
        r"|QuotaExceeded|OperationNotAllowed.{0,60}quota|quota.{0,60}(?:exhausted|not enough"
        r"|insufficient)|RESOURCE_EXHAUSTED.{0,60}quota|limit.{0,20}(?:gpus|tpus|instances"
        r"|vcpus|nodes) .{0,30}(?:exceed|reached)|AssocGrp\w+|QOSMax\w+|QOSGrp\w+|MaxGRES\w*"
        r"|Job violates accounting/QOS policy",
        "Quota 'TPUS_PER_PROJECT' exceeded. Limit: 32.0 in region us-central1.",
        "quota: 12 of 32 in use",
        _GCP + "; " + _SLURM,
        Rank.SPECIFIC,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "capacity.unschedulable",
        Label.CAPACITY_WEDGE,
        r"FailedScheduling|Unschedulable\b|\d+/\d+ nodes are available(?!: 0)"
        r"|Insufficient (?:cpu|memory|nvidia|google|amd|gpu|pods|ephemeral|\S+/\S+)"
        r"|didn't (?:match|trigger|satisfy)|NotTriggerScaleUp|had untolerated taint"
        r"|no nodes (?:available|match)|FailedScaleUp|max node group size reached"
        r"|pod didn't trigger scale-up|SchedulingGated|NotEnoughResources"
        r"|Waiting for (?:resources|capacity|nodes? to be provisioned|gpus)",
        "0/12 nodes are available: 12 Insufficient nvidia.com/gpu.",
        "Successfully assigned default/pod to node-3",
        _K8S,
        Rank.ROOT,
    ),
    Signature(
        "capacity.kueue",
        Label.CAPACITY_WEDGE,
        r"couldn't assign flavors|QuotaReserved.{0,30}(?:False|Pending|waiting)"
        r"|resource \S+ unavailable in ClusterQueue|workload .{0,60}(?:is )?(?:inadmissible"
        r"|not admitted|pending)|insufficient quota for|cannot fit|doesn't fit|borrowing limit"
        r"|no topology domains|topology .{0,60}allow(?:s|ing) to fit only"
        r"|Pod group is not ready|PodGroup.{0,40}pending|not enough (?:resources|minMember)"
        r"|minMember.{0,40}(?:not|less|unschedulable)|\d+/\d+ tasks in gang unschedulable"
        r"|gang .{0,40}(?:not ready|unschedulable|can ?not)",
        "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu",
        "QuotaReserved: True",
        _KUEUE + "; Volcano",
        Rank.SPECIFIC,
    ),
    Signature(
        "capacity.ray",
        Label.CAPACITY_WEDGE,
        r"cannot be scheduled right now|No available node types can fulfill"
        r"|autoscaler.{0,60}(?:unsatisfied|cannot (?:fulfill|satisfy)|no node types?|pending"
        r"|failed to launch)|The following resource request cannot be scheduled"
        r"|infeasible (?:resource|task|actor|request)|Pending (?:Demands|resources)"
        r"|Insufficient resources|Error: No available node|Waiting for scheduling"
        r"|resource demands? .{0,40}(?:unsatisfied|not met|pending)"
        r"|JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE|placement group .{0,60}(?:timed out|infeasible"
        r"|cannot be|pending)|cannot allocate .{0,40}placement|fail(?:ed)? to (?:create|reserve"
        r"|schedule).{0,20}placement group|cluster (?:currently )?has.{0,30}(?:no"
        r"|not enough) .{0,30}resources|not enough (?:cpus?|gpus?|resources) ",
        "Error: No available node types can fulfill resource request {'TPU': 4.0}.",
        "Resources: 3/8 GPU in use",
        "Ray autoscaler v2",
        Rank.SPECIFIC,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "capacity.slurm-pending",
        Label.CAPACITY_WEDGE,
        r"\((?:Resources|Priority|ReqNodeNotAvail|PartitionNodeLimit|PartitionConfig"
        r"|BadConstraints|Nodes? required for job (?:are|is)|BeginTime|Dependency|JobHeldAdmin"
        r"|JobHeldUser|launch failed requeued held)[^)\n]{0,80}\)|ReqNodeNotAvail"
        r"|Requested node configuration is not available|count per node can ?not be satisfied"
        r"|queued and waiting for resources|is scheduled to start in \d+ days?"
        r"|Nodes required for job are DOWN|Unable to allocate resources",
        "srun: error: Unable to allocate resources: Requested node configuration is not available",
        "queue: gpu, priority 1000",
        _SLURM,
        Rank.SPECIFIC,
        also=(Label.BENIGN,),
    ),
    Signature(
        "capacity.provision",
        Label.CAPACITY_WEDGE,
        r"Failed to (?:provision|acquire resources|launch (?:a )?(?:cluster|instance|node|vm)"
        r"|create (?:tpu|instance|vm|node|slice)|allocate (?:nodes|resources|tpu|instances))"
        r"|(?:accelerator|machine|instance)[- ]?(?:type)? ?\S* (?:was |is )?not (?:found"
        r"|available|supported|offered) in|not (?:found|available|offered|supported) in (?:zone"
        r"|region|the zone)|CREATION_FAILED|provisioning .{0,40}(?:failed|timed out|timeout)"
        r"|partial allocation|WAITING_FOR_RESOURCES|queued resource.{0,80}(?:FAILED|SUSPENDED"
        r"|waiting)|ScaleUpTimedOut|(?:only|got) \d+ (?:of|out of|/) ?\d+ (?:nodes|hosts|gpus"
        r"|workers|instances|slices).{0,20}(?:allocated|ready|available|provisioned|granted)"
        r"|ProvisioningRequest.{0,60}(?:fail|timed|not)|BookingExpired|CapacityRevoked",
        "D provisioner.py:171] Failed to provision 'run-a' on GCP (us-central2-b).",
        "provisioning took 61 s",
        "SkyPilot provisioner; Cloud TPU queued resources",
        Rank.SPECIFIC,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "capacity.pending-long",
        Label.CAPACITY_WEDGE,
        r"\b\d+/\d+\s+Pending\s+\d|(?:still |been |remains? |stays? |stuck (?:in )?"
        r"|is )(?:in )?(?:pending|queued|PENDING|unschedul\w+|waiting (?:for )?(?:capacity"
        r"|resources|scheduling|allocation|tpu|gpu))\b|JOB_STATE_PENDING.{0,60}(?:\d+ ?h|hours)"
        r"|pending for (?:over |more than )?\d+ ?(?:h|min|day)"
        r"|PodsReadyTimeout.{0,30}(?:capacity|pending)|status: PENDING.{0,40}reason"
        r"|Pending reason|waiting for (?:a |\d+ )?(?:workers?|devices?|slots?"
        r"|hosts?) to (?:become|be) (?:available|free)|no scale group"
        r"|waiting for \d+ (?:workers?|hosts?|gpus?|nodes?),? .{0,20}available",
        "job has been pending for 6 h: no coscheduled group with enough workers",
        "pending checkpoints: 1",
        "Iris; Kubernetes; SLURM; Determined",
        Rank.SPECIFIC,
    ),
    Signature(
        "capacity.iris",
        Label.CAPACITY_WEDGE,
        r"JOB_STATE_UNSCHEDULABLE|scheduler: .{0,60}(?:insufficient|no worker|need \d+)"
        r"|no (?:matching|eligible|suitable) (?:worker|node|host|instance|scale group"
        r"|offer)s?\b|scale[ -]group.{0,60}(?:backoff|at max|quota|exhausted)|tier blocked"
        r"|Coscheduling: need \d+|need \d+ workers? .{0,60}have|no offers\b",
        "Scheduler: Coscheduling: need 16 workers in 'tpu-name' group, largest group has 8",
        "scheduler: assigned task 3 to worker 7",
        "Iris scheduler; dstack",
        Rank.SPECIFIC,
    ),
)

PREEMPTION = (
    Signature(
        "preempt.cloud",
        Label.PREEMPTION,
        r"compute\.instances\.preempted|instance was preempted|(?:spot"
        r"|preemptible).{0,60}(?:reclaimed|interrupted|terminated|evicted|preempted"
        r"|taken (?:back|away)|revoked|interruption (?:notice|payload|warning)"
        r"|termination notice)|Spot ?(?:Interruption|ITN)|SPOT_ITN|[Ii]nstance (?:will"
        r"|is going to) be (?:interrupted|reclaimed|terminated)"
        r"|instance-action.{0,40}(?:terminate|stop|hibernate)|EC2 Spot Instance Interruption"
        r"|Server\.SpotInstanceTermination|rebalance recommendation|(?:is|in"
        r"|state:?) PREEMPTED\b|status:? ?=?\"?PREEMPTED|\bPREEMPTING\b"
        r"|\"?preempted\"?\s*[:=]\s*\"?true|Instance terminated (?:by .{0,20})?(?:due to "
        r")?preempt|being (?:preempted|reclaimed)|instance-termination-by-user: ?spot"
        r"|EvictionType: Deallocate|\bPreempt\b.{0,60}scheduled|EventType.{0,8}Preempt"
        r"|low-priority .{0,30}evict|has been (?:preempted|reclaimed)|was (?:preempted"
        r"|reclaimed)\b|got preempted|capacity (?:was |is being |has been )?(?:reclaimed"
        r"|taken back)",
        "compute.instances.preempted: Instance was preempted.",
        "preemptible: true",
        "Google Compute Engine; AWS EC2 Spot; Azure scheduled events",
        Rank.ROOT,
    ),
    Signature(
        "preempt.kubernetes",
        Label.PREEMPTION,
        r"Preempted (?:by|in order to|to accommodate)|DisruptionTarget.{0,80}(?:preempt|True)"
        r"|PreemptionByScheduler|PreemptionByKubeScheduler|Preempted by (?:pod|a pod)"
        r"|TerminationByKubelet|(?:evicted|preempted).{0,60}(?:higher[- ]priority"
        r"|due to priority|reclaim|fair ?sharing)|reason:? ?\"?Preempted"
        r"|Preempted\b.{0,30}(?:workload|ClusterQueue)|(?:reclaimWithinCohort"
        r"|InCohortReclamation|InClusterQueue|InCohortFairSharing)|Evicted by (?:eviction api"
        r"|preempt)|EvictionByEvictionAPI|ToBeDeletedByClusterAutoscaler"
        r"|\bgke\b.{0,60}graceful.{0,20}(?:node )?shutdown|ImminentNodeTermination"
        r"|node (?:is )?shut(?:ting)? ?down, evicting"
        r"|Pod was terminated in response to imminent node shutdown|victim.{0,40}preempt"
        r"|Evicting (?:the )?workload",
        "Preempted by pod 12ab on node gke-3",
        "No preemption victims found for incoming pod",
        "Kubernetes kube-scheduler; Kueue preemption",
        Rank.ROOT,
    ),
    Signature(
        "preempt.slurm",
        Label.PREEMPTION,
        r"DUE TO PREEMPTION|JobState=PREEMPTED|State: ?PREEMPTED|(?-i:\bPREEMPTED\b)"
        r"|/preempted\b.{0,6}true"
        r"|Preemption requeue|preempted job|job .{0,40}preempt(?:ed|ing)",
        "slurmstepd: error: *** JOB 55 ON n1 CANCELLED AT 2024-05-01T00:00:00 DUE TO PREEMPTION *"
        "**",
        "PreemptMode=REQUEUE",
        _SLURM,
        Rank.ROOT,
    ),
    Signature(
        "preempt.ray",
        Label.PREEMPTION,
        r"(?:actor's )?node was preempted|node drain requested|DRAIN_NODE_REASON_PREEMPTION"
        r"|node is being drained.{0,40}preempt|preemption (?:notice|signal|warning|detected"
        r"|event|imminent)|received .{0,30}(?:preemption|termination|interruption) (?:notice"
        r"|warning|signal|request|payload)|TPU.{0,40}(?:was )?preempted|worker .{0,40}preempted"
        r"|(?:slice|cluster|vm|task|node|job|pod|attempt|worker|instance) .{0,60}(?:was|been"
        r"|got|is) preempted",
        "the actor's node was preempted: node drain requested",
        "preemption sync manager created",
        "Ray autoscaler; JAX preemption_sync_manager",
        Rank.ROOT,
    ),
    Signature(
        "preempt.evicted",
        Label.PREEMPTION,
        r"\b\d+/\d+\s+Evicted\b|\b(?:pod|job|task|workload|worker|vm|run"
        r"|instance)s?\b.{0,60}\b(?:evicted|reclaimed)\b|reason:? ?\"?Evicted|\bEvicted\b\s{2,}"
        r"|status:? ?\"?Evicted|marked for (?:deletion|termination|eviction)",
        "pod trainer-0 was evicted from node n1",
        "eviction policy: none",
        "Kubernetes",
        Rank.SYMPTOM,
        also=(Label.NODE_FAILURE, Label.UNKNOWN),
    ),
    Signature(
        "preempt.maintenance",
        Label.PREEMPTION,
        r"TERMINATE_ON_HOST_MAINTENANCE|maintenance[- ]event.{0,40}TERMINATE"
        r"|terminated? (?:due to|for|by) (?:host |scheduled )?maintenance",
        "maintenance-event: TERMINATE_ON_HOST_MAINTENANCE",
        "maintenance-event: NONE",
        "Google Compute Engine metadata server",
        Rank.SPECIFIC,
        also=(Label.NODE_FAILURE,),
    ),
)
