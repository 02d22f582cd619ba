"""GPUs of NVIDIA and AMD: lost devices, memory, drivers, libraries."""

from watchkeeper.domain.facts.decisions import Outlook
from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_XID = "NVIDIA, XID Errors; Linux driver NVRM"
_NO_FATAL_CODE = r"(?!\D{0,40}\b(?:13|31|43|45|63|69|92)\b)"
_CUDA = "CUDA Runtime API, cudaError"
_TORCH = "PyTorch, CUDACachingAllocator.cpp, c10/cuda"

NVIDIA = (
    Signature(
        "nvidia.ecc-uncorrectable",
        Label.NODE_FAILURE,
        r"uncorrectable ECC error|ECCUncorrectable|ecc_uncorrectable|double[ -]bit (?:ECC"
        r"|errors?)|ECC errors? (?:found|detected|occurred)|uncorrectable (?:NVLink|DRAM|SRAM"
        r"|memory) error|\bDBE\b.{0,30}(?:detected|error)",
        "RuntimeError: CUDA error: uncorrectable ECC error encountered",
        "Correctable Error : 1",
        _CUDA,
        Rank.ROOT,
    ),
    Signature(
        "nvidia.xid-fatal",
        Label.NODE_FAILURE,
        r"\bXid\b(?: ?\([^)\n]{0,60}\))?[^\d\n]{0,40}(?:38|46|48|61|62|64|74|79|9[3-5]|1[0-2][0-9]"
        r"|13[0-9]|14[0-9]|15[0-9]|32|8)\b",
        "NVRM: Xid (PCI:0000:4f:00): 48, pid=1234, Double Bit ECC Error",
        "no Xid events in the last hour",
        _XID,
        Rank.ROOT,
    ),
    # What the GPU mends by itself: a row that it remapped, and a rate of errors that it corrected.
    Signature(
        "nvidia.xid-mended",
        Label.NODE_FAILURE,
        r"\bXid\b(?: ?\([^)\n]{0,60}\))?[^\d\n]{0,40}(?:63|92)\b",
        "NVRM: Xid (PCI:0000:11:1c): 63, pid=2204, Row Remapper: New row marked for remapping",
        "no Xid events in the last hour",
        _XID,
        Rank.MARK,
    ),
    # A fault of the program's own kernel, as a rule, or what a program leaves that was ended.
    Signature(
        "nvidia.xid-program",
        Label.NODE_FAILURE,
        r"\bXid\b(?: ?\([^)\n]{0,60}\))?[^\d\n]{0,40}(?:13|31|43|45|69)\b",
        "NVRM: Xid (PCI:0000:9b:00): 31, pid=88, MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0",
        "no Xid events in the last hour",
        _XID,
        Rank.MARK,
        outlook=Outlook.ASK,
    ),
    Signature(
        "nvidia.xid-named",
        Label.NODE_FAILURE,
        rf"\bXid (?:error|code|event)s?\b{_NO_FATAL_CODE}"
        r".{0,40}(?:detected|occurred|found|reported|on (?:gpu|node))"
        r"|XID_ERRORS.{0,40}[= ](?!(?:13|31|43|45|63|69|92)\s*$)[1-9]\d*\s*$",
        "Xid error detected on GPU 3",
        "no Xid errors were seen",
        _XID,
        Rank.ROOT,
    ),
    Signature(
        "nvidia.off-the-bus",
        Label.NODE_FAILURE,
        r"fallen off the bus|GPU is lost|gpu (?:has )?(?:been )?lost\b|NVML_ERROR_GPU_IS_LOST"
        r"|unable to determine the device handle",
        "NVRM: GPU 0000:81:00.0: GPU has fallen off the bus.",
        "gpu memory lost to fragmentation: 2%",
        _XID,
        Rank.ROOT,
    ),
    Signature(
        "nvidia.link",
        Label.NODE_FAILURE,
        r"\bmlx5_\w+ .{0,80}Cable (?:unplugged|error)|NVLink\b.{0,60}(?:fatal"
        r"|(?:is|went|link|are) down\b|failure|uncorrectable"
        r"|error detected)|nvswitch.{0,40}(?:fatal|non-fatal error|failure|\bSXid)\b"
        r"|\bSXid\b.{0,50}\d{5}|NV_?ERR_NVLINK|cudaErrorNvlinkUncorrectable"
        r"|fabric manager.{0,60}(?:fail|not running|stopped)",
        "NVLink 5 is down on GPU 2",
        "Link 3: Replay Errors: 0",
        _XID,
        Rank.ROOT,
    ),
    Signature(
        "nvidia.system-not-ready",
        Label.NODE_FAILURE,
        r"\bsystem not yet initialized|cudaErrorSystemNotReady|CUDA_ERROR_SYSTEM_NOT_READY"
        r"|Error 802\b",
        "CUDA initialization: Unexpected error from cudaGetDeviceCount(). Error 802: system not "
        "yet initialized",
        "tracker not yet initialized",
        _CUDA,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "nvidia.device-fault",
        Label.NODE_FAILURE,
        r"hardware stack error|cudaErrorHardwareStackError|GSP (?:task )?timeout"
        r"|timeout waiting for RPC from GSP|RmInitAdapter failed|rm_init_adapter failed"
        r"|GPU recovery action|row[ -]?remap\w* (?:failure|failed)|row remap\w* pending"
        r"|cudaErrorContained|unrecoverable.{0,20}(?:gpu|memory) error"
        r"|GPU memory page retirement|page retirement (?:failure|pending: yes)"
        r"|thermal (?:violation|shutdown)|contained (?:ecc|memory) error",
        "NVRM: GPU at PCI:0000:18:00: timeout waiting for RPC from GSP!",
        "rpc timeout is 60 s",
        _XID,
        Rank.ROOT,
    ),
    Signature(
        "nvidia.no-devices",
        Label.NODE_FAILURE,
        r"no devices were found|GPU(?:s)? (?:is|are) missing|missing GPUs?\b"
        r"|expected \d+ gpus?,? (?:but )?(?:found|got|only)|GPU count mismatch"
        r"|GPU is unavailable|gpu (?:device )?is (?:unhealthy|not healthy)|unhealthy gpu"
        r"|CUDA-capable device\(s\) is/are busy or unavailable|cudaErrorDevicesUnavailable",
        "No devices were found",
        "4 devices were found",
        "nvidia-smi; NVIDIA device plugin; CUDA runtime",
    ),
    Signature(
        "nvidia.dcgm",
        Label.NODE_FAILURE,
        r"dcgm\w*.{0,80}(?:health (?:check )?fail|\bfail(?:ed|ure)\b.{0,30}(?:diag|health|gpu)"
        r"|unhealthy)|dcgmi diag.{0,60}\bfail",
        "DCGM diag: GPU 3 health check failed: PCIe replay",
        "DCGM exporter started on port 9400",
        "DCGM health and diagnostics",
        Rank.ROOT,
    ),
    Signature(
        "nvidia.straggler-hardware",
        Label.NODE_FAILURE,
        r"(?:node|gpu|host|instance|machine) .{0,40}(?:hardware (?:failure|fault|error)"
        r"|is broken|replaced|went down|died|crashed)\b|hardware (?:failure|fault|error) (?:on"
        r"|detected|in)|machine check (?:exception|event|error)|\bMCE\b.{0,30}(?:hardware"
        r"|fatal)|broken gpu|faulty (?:gpu|node|host|nic|hardware)|bad (?:gpu|node"
        r"|hardware)s?\b.{0,30}(?:detected|found|excluded|replaced|cordon)",
        "node gpu-12 died, hardware failure",
        "hardware: 8 x H100",
        "site chronicles; Linux mce",
    ),
    Signature(
        "nvidia.infiniband",
        Label.NODE_FAILURE,
        r"\b(?:mlx5|ib)_?\w{0,12}\b.{0,60}(?:link (?:is )?down|port (?:is )?down|fatal"
        r"|health compromised|error event|unresponsive)|ibv_\w+ .{0,30}failed"
        r"|IBV_WC_RETRY_EXC_ERR|transport retry counter exceeded|local catastrophic error"
        r"|IB link flap",
        "mlx5_core 0000:5e:00.0: health compromised - reached miss count",
        "mlx5_0 port 1 state: Active",
        "Linux mlx5; libibverbs; NCCL net_ib.cc",
        Rank.SPECIFIC,
        also=(Label.COLLECTIVE_HANG,),
    ),
    Signature(
        "cuda.oom",
        Label.HBM_OOM,
        r"CUDA(?: error: | driver error: | runtime error: | )(?:\(\d+\) ?:? ?)?out of memory"
        r"|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
        r"|torch\.(?:cuda\.)?OutOfMemoryError|cuda runtime error \(2\)|(?:HIP|XPU|NPU"
        r"|MPS)(?: error: | backend | )out of memory|hipErrorOutOfMemory|OutOfMemoryError: CUDA"
        r"|out of memory (?:on|of) (?:device )?(?:npu|xpu|hpu|mlu|gpu)\b",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "CUDA memory: 12 of 80 GiB in use",
        _TORCH,
        Rank.ROOT,
    ),
    Signature(
        "cuda.alloc-failed",
        Label.HBM_OOM,
        r"CUBLAS_STATUS_ALLOC_FAILED|CUDNN_STATUS_ALLOC_FAILED"
        r"|failed to allocate \S+ ?\S* ?(?:bytes )?(?:from|on) (?:the )?(?:device|gpu)"
        r"|failed to alloc\w* .{0,60}on device|insufficient (?:gpu|device|cuda|video) memory"
        r"|not enough (?:gpu|device|cuda) memory|No available memory for the cache blocks"
        r"|free memory on device .{0,60}is less than|(?:gpu|vram"
        r"|device)(?: memory)?(?: is)? (?:exhausted|ran out)|OOM when allocating tensor",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)",
        "device memory pool: 70 GiB free",
        "cuBLAS; cuDNN; TensorFlow BFC allocator; vLLM",
        Rank.ROOT,
    ),
    Signature(
        "cuda.assert",
        Label.CODE_BUG,
        r"device-side assert(?!ions)|index out of bounds.{0,20}Assertion"
        r"|srcIndex < srcSelectDimSize|Assertion `.{1,120}` failed",
        "RuntimeError: CUDA error: device-side assert triggered",
        "asserts on the device are enabled",
        "PyTorch, ATen/native/cuda",
        also=(Label.DATA_ERROR,),
    ),
    Signature(
        "cuda.illegal-access",
        Label.CODE_BUG,
        r"illegal memory access|misaligned address|illegal instruction was encountered"
        r"|cudaErrorIllegalAddress|CUDA_ERROR_ILLEGAL_ADDRESS|invalid device function"
        r"|invalid (?:configuration argument|resource handle)|memory access fault by GPU",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "memory access pattern: sequential",
        _CUDA,
        Rank.SYMPTOM,
        also=(Label.NODE_FAILURE,),
    ),
    Signature(
        "cuda.unknown",
        Label.UNKNOWN,
        r"CUDA error: (?:unknown error|the launch timed out)|cudaErrorUnknown|c10::CUDAError"
        r"|CUDA_ERROR_UNKNOWN",
        "RuntimeError: CUDA error: unknown error",
        "no unknown keys",
        _CUDA,
        Rank.SYMPTOM,
        also=(Label.NODE_FAILURE,),
    ),
    Signature(
        "cuda.launch-failure",
        Label.CODE_BUG,
        r"unspecified launch failure|cudaErrorLaunchFailure|CUDA_ERROR_LAUNCH_FAILED|(?:HIP"
        r"|ROCm) error: unspecified",
        "RuntimeError: CUDA error: unspecified launch failure",
        "cuda launch blocking: 1",
        _CUDA,
        Rank.SYMPTOM,
        also=(Label.NODE_FAILURE, Label.UNKNOWN),
    ),
    Signature(
        "cuda.cublas",
        Label.UNKNOWN,
        r"CUBLAS_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR)|CUDNN_STATUS_(?:EXECUTION_FAILED"
        r"|INTERNAL_ERROR|MAPPING_ERROR)",
        "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "cuDNN version 8902",
        "cuBLAS and cuDNN API",
        Rank.SYMPTOM,
        also=(Label.HBM_OOM, Label.CODE_BUG),
    ),
    Signature(
        "cuda.not-supported",
        Label.CONFIG_ERROR,
        r"no kernel image is available|CUBLAS_STATUS_(?:NOT_SUPPORTED|ARCH_MISMATCH)"
        r"|CUDNN_STATUS_(?:NOT_SUPPORTED|VERSION_MISMATCH|ARCH_MISMATCH|SUBLIBRARY)"
        r"|CUDA driver version is insufficient|forward compatibility was attempted"
        r"|driver (?:on your system )?is too old|Driver/library version mismatch"
        r"|not compatible with the current PyTorch|Torch not compiled with CUDA"
        r"|CUDA_ERROR_INVALID_IMAGE|kernel image is invalid|PTX (?:JIT"
        r"|was compiled with an unsupported)|minimum required Cuda driver"
        r"|Found no NVIDIA driver|libcud\w+\.so.{0,40}cannot open|NVIDIA-SMI has failed"
        r"|nvidia-container-cli: (?:requirement|initialization) error"
        r"|could not select device driver|No CUDA runtime is found|CUDA_HOME.{0,30}not (?:set"
        r"|found)|ImportError: lib\w+\.so|cuda version .{0,60}(?:mismatch|does(?:n't"
        r"| not) match)",
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "NVIDIA-SMI 550.54 Driver Version: 550.54",
        "CUDA compatibility; PyTorch torch/cuda",
        also=(Label.NODE_FAILURE,),
    ),
    Signature(
        "cuda.invalid-device",
        Label.CONFIG_ERROR,
        r"invalid device ordinal|no CUDA-capable device|No CUDA GPUs are available"
        r"|cudaErrorNoDevice|cudaErrorInvalidDevice|CUDA is not available"
        r"|no CUDA devices? (?:is|are|was|were)|torch\.cuda\.is_available\(\) is False"
        r"|Duplicate GPU detected|MisconfigurationException",
        "RuntimeError: CUDA error: invalid device ordinal",
        "using CUDA device ordinal 3",
        _CUDA,
        also=(Label.NODE_FAILURE,),
    ),
    Signature(
        "rocm.fault",
        Label.NODE_FAILURE,
        r"amdgpu.{0,60}(?:GPU reset|ring \w+ timeout|uncorrectable|RAS poison|VM_L2_PROTECTION)"
        r"|HSA_STATUS_ERROR_(?:HARDWARE|EXCEPTION)|hipErrorECCNotCorrectable",
        "amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!",
        "amdgpu: initialized 8 devices",
        "Linux amdgpu; ROCm HSA runtime",
    ),
)
