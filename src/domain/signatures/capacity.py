"""Resources that cannot be had, and resources that are taken back."""

from watchkeeper.domain.signatures.model import Label, Rank, Signature

_GCP = "Google Compute Engine and Cloud TPU API"
_K8S = "Kubernetes, kube-scheduler and cluster-autoscaler"
_KUEUE = "Kueue, pkg/scheduler"
_SLURM = "SLURM, squeue reasons and slurmctld"

CAPACITY = (
    Signature(
        "capacity.stock-out",
        Label.CAPACITY_WEDGE,
        r"no more capacity|ZONE_RESOURCE_POOL_EXHAUSTED|RESOURCE_POOL_EXHAUSTED|stock-?out"
        r"|does not have enough resources available|resources? (?:is |are )?(?:currently )?"
        r"unavailable in|InsufficientInstanceCapacity|insufficient (?:\S+ )?(?:instance )?capacity"
        r"|InsufficientReservedInstanceCapacity|(?:Allocation|OverconstrainedAllocation|"
        r"ZonalAllocation|OverconstrainedZonalAllocation)(?:Request)?Failed|SkuNotAvailable"
        r"|(?:not|n't) (?:have )?(?:enough|sufficient) (?:\w+ )?(?:capacity|resources)|(?:could no"
        r"t|cannot|unable to) (?:allocate|find|get|acquire|obtain) .{0,30}(?:gpus?|tpus?|nodes?|ma"
        r"chines?|instances?|chips?|slices?)\b.{0,20}(?:only|requested|available|:|free)|no (?:spo"
        r"t |available )?capacity|UnfulfillableCapacity"
        r"|MaxSpotInstanceCountExceeded|capacity(?:-| )(?:not[- ]available|oversubscribed|unavaila"
        r"ble"
        r"|is not available)|out of capacity|lack of capacity|Insufficient reservation"
        r"|no (?:gpus?|tpus?|instances?|offers?|machines?|nodes?|hosts?) (?:is |are |was |were )?"
        r"(?:currently )?(?:available|free)\b|there are not enough (?:free |idle )?(?:gpus|tpus|"
        r"nodes|slots|resources)|ResourcesUnavailableError|FAILED_TO_START_DUE_TO_NO_CAPACITY",
        'There is no more capacity in the zone "europe-west4-a"',
        "node capacity: 8 GPUs",
        _GCP + "; AWS EC2; Azure",
        Rank.ROOT,
    ),
    Signature(
        "capacity.quota",
        Label.CAPACITY_WEDGE,
        r"Quota .{0,80}exceeded|QUOTA_EXCEEDED|exceeded quota|quota (?:limit )?(?:has been )?"
        r"(?:exceeded|reached)|(?:Vcpu|Instance|Max\w*)LimitExceeded|insufficient (?:unused )?quota"
        r"|exceeding approved .{0,40}quota|QuotaExceeded|OperationNotAllowed.{0,60}quota"
        r"|quota.{0,60}(?:exhausted|not enough|insufficient)|RESOURCE_EXHAUSTED.{0,60}quota"
        r"|limit.{0,20}(?:gpus|tpus|instances|vcpus|nodes) .{0,30}(?:exceed|reached)"
        r"|AssocGrp\w+|QOSMax\w+|QOSGrp\w+|MaxGRES\w*|Job violates accounting/QOS policy",
        "Quota 'TPUS_PER_PROJECT' exceeded. Limit: 32.0 in region us-central1.",
        "quota: 12 of 32 in use",
        _GCP + "; " + _SLURM,
        Rank.SPECIFIC,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "capacity.unschedulable",
        Label.CAPACITY_WEDGE,
        r"FailedScheduling|Unschedulable\b|\d+/\d+ nodes are available(?!: 0)|Insufficient (?:cpu|"
        r"memory|nvidia|google|amd|gpu|pods|ephemeral|\S+/\S+)|didn't (?:match|trigger|satisfy)"
        r"|NotTriggerScaleUp|had untolerated taint|no nodes (?:available|match)|FailedScaleUp"
        r"|max node group size reached|pod didn't trigger scale-up|SchedulingGated"
        r"|NotEnoughResources|Waiting for (?:resources|capacity|nodes? to be provisioned|gpus)",
        "0/12 nodes are available: 12 Insufficient nvidia.com/gpu.",
        "Successfully assigned default/pod to node-3",
        _K8S,
        Rank.ROOT,
    ),
    Signature(
        "capacity.kueue",
        Label.CAPACITY_WEDGE,
        r"couldn't assign flavors|QuotaReserved.{0,30}(?:False|Pending|waiting)|resource \S+ "
        r"unavailable in ClusterQueue|workload .{0,60}(?:is )?(?:inadmissible|not admitted|pending)"
        r"|insufficient quota for|cannot fit|doesn't fit|borrowing limit|no topology domains"
        r"|topology .{0,60}allow(?:s|ing) to fit only|Pod group is not ready|PodGroup.{0,40}pending"
        r"|not enough (?:resources|minMember)|minMember.{0,40}(?:not|less|unschedulable)"
        r"|\d+/\d+ tasks in gang unschedulable|gang .{0,40}(?:not ready|unschedulable|can ?not)",
        "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu",
        "QuotaReserved: True",
        _KUEUE + "; Volcano",
        Rank.SPECIFIC,
    ),
    Signature(
        "capacity.ray",
        Label.CAPACITY_WEDGE,
        r"cannot be scheduled right now|No available node types can fulfill|autoscaler.{0,60}"
        r"(?:unsatisfied|cannot (?:fulfill|satisfy)|no node types?|pending|failed to launch)"
        r"|The following resource request cannot be scheduled|infeasible (?:resource|task|actor|"
        r"request)|Pending (?:Demands|resources)|Insufficient resources|Error: No available node"
        r"|Waiting for scheduling|resource demands? .{0,40}(?:unsatisfied|not met|pending)"
        r"|JOB_SUPERVISOR_ACTOR_UNSCHEDULABLE|placement group .{0,60}(?:timed out|infeasible|"
        r"cannot be|pending)|cannot allocate .{0,40}placement|fail(?:ed)? to (?:create|reserve|"
        r"schedule).{0,20}placement group|cluster (?:currently )?has.{0,30}(?:no|not enough) .{0,3"
        r"0}"
        r"resources|not enough (?:cpus?|gpus?|resources) ",
        "Error: No available node types can fulfill resource request {'TPU': 4.0}.",
        "Resources: 3/8 GPU in use",
        "Ray autoscaler v2",
        Rank.SPECIFIC,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "capacity.slurm-pending",
        Label.CAPACITY_WEDGE,
        r"\((?:Resources|Priority|ReqNodeNotAvail|PartitionNodeLimit|PartitionConfig|BadConstraint"
        r"s|"
        r"Nodes? required for job (?:are|is)|BeginTime|Dependency|JobHeldAdmin|JobHeldUser|"
        r"launch failed requeued held)[^)\n]{0,80}\)|ReqNodeNotAvail|Requested node configuration "
        r"is not available|count per node can ?not be satisfied|queued and waiting for resources|i"
        r"s scheduled to start in \d+ days?"
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
        r"Failed to (?:provision|acquire resources|launch (?:a )?(?:cluster|instance|node|vm)|crea"
        r"te "
        r"(?:tpu|instance|vm|node|slice)|allocate (?:nodes|resources|tpu|instances))"
        r"|(?:accelerator|machine|instance)[- ]?(?:type)? ?\S* (?:was |is )?not (?:found|available|"
        r"supported|offered) in|not (?:found|available|offered|supported) in (?:zone|region|the zo"
        r"ne)"
        r"|CREATION_FAILED|provisioning .{0,40}(?:failed|timed out|timeout)|partial allocation"
        r"|WAITING_FOR_RESOURCES|queued resource.{0,80}(?:FAILED|SUSPENDED|waiting)"
        r"|ScaleUpTimedOut|(?:only|got) \d+ (?:of|out of|/) ?\d+ (?:nodes|hosts|gpus|workers|"
        r"instances|slices).{0,20}(?:allocated|ready|available|provisioned|granted)"
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
        r"(?:still |been |remains? |stays? |stuck (?:in )?|is )(?:in )?(?:pending|queued|PENDING|"
        r"unschedul\w+|waiting (?:for )?(?:capacity|resources|scheduling|allocation|tpu|gpu))\b"
        r"|JOB_STATE_PENDING.{0,60}(?:\d+ ?h|hours)|pending for (?:over |more than )?\d+ ?(?:h|min|"
        r"day)|PodsReadyTimeout.{0,30}(?:capacity|pending)|status: PENDING.{0,40}reason"
        r"|Pending reason|waiting for (?:a |\d+ )?(?:workers?|devices?|slots?|hosts?) to (?:become"
        r"|be) "
        r"(?:available|free)|no scale group|waiting for \d+ (?:workers?|hosts?|gpus?|nodes?),? .{0"
        r",20}available",
        "job has been pending for 6 h: no coscheduled group with enough workers",
        "pending checkpoints: 1",
        "Iris; Kubernetes; SLURM; Determined",
        Rank.SPECIFIC,
    ),
    Signature(
        "capacity.iris",
        Label.CAPACITY_WEDGE,
        r"JOB_STATE_UNSCHEDULABLE|scheduler: .{0,60}(?:insufficient|no worker|need \d+)"
        r"|no (?:matching|eligible|suitable) (?:worker|node|host|instance|scale group|offer)s?\b"
        r"|scale[ -]group.{0,60}(?:backoff|at max|quota|exhausted)|tier blocked"
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
        r"compute\.instances\.preempted|instance was preempted|(?:spot|preemptible).{0,60}(?:recla"
        r"imed|"
        r"interrupted|terminated|evicted|preempted|taken (?:back|away)|revoked|interruption (?:not"
        r"ice|"
        r"payload|warning)|termination notice)"
        r"|Spot ?(?:Interruption|ITN)|SPOT_ITN|[Ii]nstance (?:will|is going to) be (?:interrupted|"
        r"reclaimed|terminated)|instance-action.{0,40}(?:terminate|stop|hibernate)"
        r"|EC2 Spot Instance Interruption|Server\.SpotInstanceTermination|rebalance recommendation"
        r"|(?:is|in|state:?) PREEMPTED\b|status:? ?=?\"?PREEMPTED|\bPREEMPTING\b"
        r"|\"?preempted\"?\s*[:=]\s*\"?true|Instance terminated (?:by .{0,20})?(?:due to )?preempt"
        r"|being (?:preempted|reclaimed)|instance-termination-by-user: ?spot|EvictionType: Dealloc"
        r"ate"
        r"|\bPreempt\b.{0,60}scheduled|EventType.{0,8}Preempt|low-priority .{0,30}evict"
        r"|has been (?:preempted|reclaimed)|was (?:preempted|reclaimed)\b|got preempted"
        r"|capacity (?:was |is being |has been )?(?:reclaimed|taken back)",
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
        r"|TerminationByKubelet|(?:evicted|preempted).{0,60}(?:higher[- ]priority|due to priority|"
        r"reclaim|fair ?sharing)|reason:? ?\"?Preempted|Preempted\b.{0,30}(?:workload|ClusterQueue)"
        r"|(?:reclaimWithinCohort|InCohortReclamation|InClusterQueue|InCohortFairSharing)"
        r"|Evicted by (?:eviction api|preempt)|EvictionByEvictionAPI|ToBeDeletedByClusterAutoscaler"
        r"|\bgke\b.{0,60}graceful.{0,20}(?:node )?shutdown|ImminentNodeTermination"
        r"|node (?:is )?shut(?:ting)? ?down, evicting|Pod was terminated in response to imminent n"
        r"ode "
        r"shutdown|victim.{0,40}preempt|Evicting (?:the )?workload",
        "Preempted by pod 12ab on node gke-3",
        "No preemption victims found for incoming pod",
        "Kubernetes kube-scheduler; Kueue preemption",
        Rank.ROOT,
    ),
    Signature(
        "preempt.slurm",
        Label.PREEMPTION,
        r"DUE TO PREEMPTION|JobState=PREEMPTED|State: ?PREEMPTED|\bPREEMPTED\b"
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
        r"|node is being drained.{0,40}preempt|preemption (?:notice|signal|warning|detected|"
        r"event|imminent)|received .{0,30}(?:preemption|termination|interruption) (?:notice|warnin"
        r"g|"
        r"signal|request|payload)|TPU.{0,40}(?:was )?preempted|worker .{0,40}preempted|"
        r"(?:slice|cluster|vm|task|node|job|pod|attempt|worker|instance) .{0,60}(?:was|been|got|is"
        r") "
        r"preempted",
        "the actor's node was preempted: node drain requested",
        "preemption sync manager created",
        "Ray autoscaler; JAX preemption_sync_manager",
        Rank.ROOT,
    ),
    Signature(
        "preempt.evicted",
        Label.PREEMPTION,
        r"\b(?:pod|job|task|workload|worker|vm|run|instance)s?\b.{0,60}\b(?:evicted|reclaimed)\b"
        r"|reason:? ?\"?Evicted|\bEvicted\b\s{2,}|status:? ?\"?Evicted|"
        r"marked for (?:deletion|termination|eviction)",
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
