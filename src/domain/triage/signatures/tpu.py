"""TPUs: chips that are not given, device memory, and the libraries around them."""

from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_LIBTPU = "libtpu; JAX xla_bridge.py; Cloud TPU troubleshooting"
_XLA = "XLA, xla/service and TPU compiler"

TPU = (
    Signature(
        "tpu.no-accelerator",
        Label.TPU_BAD_NODE,
        r"No accelerator found|Failed to (?:find|initialize|open|get"
        r"|connect to).{0,40}(?:accelerator|TPU\b)|NOT_FOUND: No .{1,40} device found"
        r"|No TPU devices? (?:was |were )?(?:found|available)"
        r"|TPU initialization failed(?!: Invalid)|driver in registry|TPU (?:is |was )?held by"
        r"|only CpuDevice|No GPU/TPU found|TPU core halted|no TPU (?:chips|cores)"
        r"|tpu (?:platform|system|driver|driver instance).{0,40}(?:fail|not (?:found"
        r"|responding))|TPU (?:chip|core|device).{0,40}(?:unhealthy|lost|failed|not (?:found"
        r"|responding|healthy))|Expected \d+ (?:TPU )?(?:chips|devices)",
        "RuntimeError: No accelerator found. Please run on a TPU or GPU.",
        "Found 4 TPU chips",
        _LIBTPU,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "tpu.driver-cleanup",
        Label.TPU_BAD_NODE,
        r"TPU core halted|only CpuDevice|No GPU/TPU found|Failed to (?:cleanup|clean up) driver"
        r"|driver after error: INTERNAL",
        "Failed to cleanup driver after error: INTERNAL: FAILED_PRECONDITION",
        "driver cleaned up",
        _LIBTPU,
        Rank.ROOT,
    ),
    Signature(
        "tpu.device-busy",
        Label.TPU_BAD_NODE,
        r"(?:vfio|/dev/accel|libtpu|\btpu\b|open\(/dev).{0,120}(?:resource busy|is busy|in use)"
        r"|(?:resource busy|in use).{0,80}(?:vfio|/dev/accel|libtpu|\btpu\b)"
        r"|Couldn't open (?:iommu group|/dev/vfio)|TPU is already in use"
        r"|The TPU is already in use by|open\(/dev/vfio.{0,40}failed|Device or resource busy",
        "Couldn't open iommu group /dev/vfio/0: Device or resource busy",
        "mounting /dev/vfio/0 into the container",
        _LIBTPU,
        Rank.ROOT,
    ),
    Signature(
        "tpu.lockfile",
        Label.TPU_BAD_NODE,
        r"libtpu_?lockfile|libtpu.so (?:is )?already in use|TPU lock ?file|ABORTED:.{0,60}libtpu",
        "The TPU is already in use by process with pid 99; remove /tmp/libtpu_lockfile",
        "reading the lock file of uv",
        _LIBTPU,
        Rank.ROOT,
    ),
    Signature(
        "tpu.halted",
        Label.TPU_BAD_NODE,
        r"(?:tensor ?core|TPU core|accelerator device|core) (?:is |was )?halted unexpectedly"
        r"|Accelerator device halted|schedule not found in|FATAL.{0,40}tpu chip"
        r"|TpuStatus.{0,40}(?:fault|error)|Failed to (?:reset|load program on) TPU",
        "INTERNAL: Accelerator device halted prematurely, perhaps due to an on-device check-failu"
        "re",
        "device halted at breakpoint",
        _LIBTPU,
        also=(Label.NODE_FAILURE, Label.CODE_BUG),
    ),
    Signature(
        "tpu.init-failed",
        Label.TPU_BAD_NODE,
        r"Unable to initialize backend .tpu.: (?:UNAVAILABLE|INTERNAL|ABORTED|NOT_FOUND"
        r"|FAILED_PRECONDITION|DEADLINE|UNKNOWN)(?!.{0,60}(?:shared object|libtpu\.so))"
        r"|cloud_tpu_init failed|Bad StatusOr access.{0,60}TPU",
        "RuntimeError: Unable to initialize backend 'tpu': UNAVAILABLE: TPU initialization failed",
        "Unable to initialize backend 'tpu': module 'jaxlib' has no attribute 'make_tpu_client'",
        _LIBTPU,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "tpu.backend-missing",
        Label.CONFIG_ERROR,
        r"RuntimeError: Unable to initialize backend|Unable to initialize backend .{1,20}: "
        r"(?:UNIMPLEMENTED|INVALID_ARGUMENT)|JAX_PLATFORMS.{0,40}(?:unknown|invalid)"
        r"|Unknown backend|not (?:compiled|built) with (?:TPU|GPU|CUDA) support|LoadPjrtPlugin"
        r"|PJRT.{0,40}(?:version mismatch|API version|incompatible)"
        r"|requested platform .{0,40}not (?:present|available)|TPUAccelerator can ?not",
        "RuntimeError: Unknown backend: 'gpu' requested, but no platforms that are instances of g"
        "pu",
        "Unable to initialize backend 'rocm': module 'jaxlib' has no attribute",
        "JAX xla_bridge.py",
        Rank.SYMPTOM,
    ),
    Signature(
        "tpu.library-mismatch",
        Label.CONFIG_ERROR,
        r"not available in this library|libtpu.{0,60}(?:version mismatch|incompatible|too old"
        r"|not supported|older than)|incompatible .{0,30}libtpu"
        r"|jaxlib (?:version )?.{0,40}(?:incompatible|is newer than|is older than|too old)"
        r"|mosaic.{0,60}(?:version|unsupported)",
        "TpuTransferManager_ReadDynamicShapes not available in this library.",
        "libtpu 0.0.11 loaded",
        _LIBTPU,
        Rank.SPECIFIC,
    ),
    Signature(
        "xla.hbm",
        Label.HBM_OOM,
        r"Ran out of memory in memory space (?:hbm|vmem|smem|cmem)|memory space hbm"
        r"|program hbm requirement|Largest program allocations? in (?:hbm|vmem|smem)"
        r"|Exceeded (?:hbm|vmem|smem|scoped vmem) capacity|(?:hbm|scoped vmem|vmem) (?:usage"
        r"|limit|capacity).{0,40}(?:exceed|over)|scoped (?:vmem )?allocation.{0,60}(?:exceed"
        r"|limit)|exceeds? .{0,20}\b(?:hbm|vmem)\b|E1(?:000|001).{0,60}(?:hbm|vmem)",
        "Ran out of memory in memory space hbm. Used 9.1G of 7.5G hbm.",
        "hbm: 7.5G of 15.5G in use",
        _XLA,
        Rank.ROOT,
    ),
    Signature(
        "xla.resource-exhausted",
        Label.HBM_OOM,
        r"(?:RESOURCE_EXHAUSTED|ResourceExhausted(?:Error)?"
        r"|Resource exhausted).{0,60}(?:out of memory|allocat|hbm|vmem|\bOOM\b|bytes|device"
        r"|buffer|memory)|Out of memory (?:while )?(?:trying to )?allocat\w*"
        r"|Error loading program.{0,60}allocate|Attempting to (?:allocate"
        r"|reserve) .{0,60}not possible|BFCAllocator.{0,60}(?:ran out|out of memory)"
        r"|Allocator \(GPU_\d.{0,40}ran out of memory|Not enough (?:HBM|device) memory"
        r"|TPU.{0,30}out of memory",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
        "RESOURCE_EXHAUSTED: Quota exceeded for quota metric",
        _XLA,
        Rank.ROOT,
    ),
    Signature(
        "xla.compile",
        Label.CODE_BUG,
        r"Mosaic failed to compile|XLA.{0,30}compil\w+ (?:error|failed)|hlo verifier"
        r"|INTERNAL: (?:RET_CHECK|during context)|INVALID_ARGUMENT: .{0,80}(?:shape|dimension"
        r"|sharding|operand)|TracerBoolConversionError|ConcretizationTypeError"
        r"|UnexpectedTracerError|TracerArrayConversionError|NonConcreteBooleanIndexError"
        r"|TracerIntegerConversionError|\bLowering (?:failed|error)|Triton .{0,20}(?:compil\w+"
        r"|error)|BackendCompilerFailed|torch\._dynamo\.exc|InductorError"
        r"|Buffer has been (?:deleted|donated)|Array has been deleted",
        "jax.errors.UnexpectedTracerError: Encountered an unexpected tracer.",
        "XLA compilation took 61 s",
        _XLA,
        Rank.GENERIC,
        also=(Label.CONFIG_ERROR,),
    ),
)
