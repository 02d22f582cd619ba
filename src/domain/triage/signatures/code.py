"""Programming errors, and settings that are wrong."""

from watchkeeper.domain.facts.decisions import Outlook
from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_PY = "Python, built-in exceptions"
_TORCH = "PyTorch, ATen shape checks"

CODE = (
    Signature(
        "code.name",
        Label.CODE_BUG,
        r"^(?:builtins\.)?(?:NameError|UnboundLocalError|SyntaxError|IndentationError|TabError"
        r"|NotImplementedError|RecursionError|ZeroDivisionError)\b",
        "NameError: name 'steps' is not defined",
        "metric NameErrorRate: 0.1",
        _PY,
        Rank.SPECIFIC,
    ),
    Signature(
        "code.type",
        Label.CODE_BUG,
        r"^(?:builtins\.)?(?:TypeError|AttributeError|IndexError|UnicodeEncodeError"
        r"|OverflowError|StopIteration|UnsupportedOperation|LookupError|BufferError)\b",
        "TypeError: forward() got an unexpected keyword argument 'mask'",
        "TypeErrors seen: none",
        _PY,
        Rank.GENERIC,
    ),
    Signature(
        "code.key",
        Label.CODE_BUG,
        r"^(?:builtins\.)?(?:KeyError|AssertionError)\b(?!: '(?:state|model|optim\w*"
        r"|module)[.'])",
        "KeyError: 'labels'",
        "keys: 12",
        _PY,
        Rank.GENERIC,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "code.value",
        Label.CODE_BUG,
        r"^(?:builtins\.)?ValueError\b",
        "ValueError: too many values to unpack (expected 2)",
        "value errors: 0",
        _PY,
        Rank.GENERIC,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "code.import-name",
        Label.CODE_BUG,
        r"ImportError: cannot import name|cannot import name '",
        "ImportError: cannot import name 'foo' from 'bar' (bar.py)",
        "import finished",
        _PY,
        Rank.SPECIFIC,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "code.shapes",
        Label.CODE_BUG,
        r"mat1 and mat2 shapes cannot be multiplied|size mismatch, "
        r"|The size of tensor a .{0,20}must match|shape .{0,60}is invalid for input of size"
        r"|Sizes of tensors must match|Expected all tensors to be on the same device"
        r"|expected scalar type|Expected .{0,40}(?:dtype|tensor|size|shape).{0,60}(?:but (?:got"
        r"|found|received))|Incompatible shapes|dot_general requires|shapes? .{0,60}(?:mismatch"
        r"|incompatible|not aligned|do(?:es)?n't match|must be (?:equal|broadcast))"
        r"|could not broadcast|cannot reshape|inputs? must have the same (?:shape|size|dtype)"
        r"|dimension .{0,30}(?:out of range|should be divisible)|Got incompatible shapes"
        r"|expects? .{0,30}dimensions?,? (?:but )?got"
        r"|does not require grad and does not have a grad_fn"
        r"|backward through the graph a second|modified by an inplace operation"
        r"|Expected to have finished reduction in the prior|marked (?:as )?ready twice"
        r"|unused parameters?.{0,60}(?:find_unused|error|DDP)|should be divisible by tensor"
        r"|index \d+ is out of bounds|list index out of range|dimension specified as"
        r"|Input type .{0,60}and weight type|has no attribute '",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x8 and 16x32)",
        "shapes: (4, 8)",
        _TORCH,
        Rank.SPECIFIC,
    ),
    Signature(
        "code.segfault",
        Label.CODE_BUG,
        r"Segmentation fault|\bSIGSEGV\b|signal 11\b|exit(?:ed)? (?:with )?(?:code"
        r"|status)[ :=]+(?:139|-11)\b|exitcode ?[:=]? ?-11\b|segfault at"
        r"|Fatal Python error: Segmentation|double free or corruption|free\(\): invalid"
        r"|corrupted size vs\. prev_size|heap corruption|stack smashing detected|SIGILL"
        r"|Illegal instruction|(?:malloc|munmap_chunk|malloc_consolidate|realloc"
        r"|mremap_chunk)\(\): |pure virtual method|\b0xC0{4}(?:005|374|409|0FD)\b"
        r"|-10737(?:41819|40940|40791|41571)\b",
        "Segmentation fault (core dumped)",
        "segfault handler installed",
        "Linux signals; glibc; NTSTATUS values of Windows",
        Rank.SYMPTOM,
    ),
    Signature(
        "code.panic",
        Label.CODE_BUG,
        r"\bpanic: |panicked at|goroutine \d+ \[running\]|Check failed: |CHECK failed"
        r"|RET_CHECK failure|Fatal Python error: (?!Aborted|none)|undefined (?:variable|name) "
        r"|pickl\w+ .{0,40}(?:object|error)|can't pickle|is not JSON serializable"
        r"|unhashable type|takes \d+ positional argument|missing \d+ required positional"
        r"|unexpected keyword argument|object is not (?:callable|iterable|subscriptable)"
        r"|unsupported operand type|referenced before assignment|is not defined\b",
        "panic: runtime error: invalid memory address or nil pointer dereference",
        "panic button: off",
        "Go; Rust; glog; Python",
        Rank.GENERIC,
    ),
)

CONFIG = (
    Signature(
        "config.missing-package",
        Label.CONFIG_ERROR,
        r"ModuleNotFoundError|No module named|command not found|undefined symbol"
        r"|cannot open shared object file|version `\w+_[\d.]+' not found"
        r"|executable file not found|DLL load failed|ImportError: .{0,80}(?:requires"
        r"|is not installed|please (?:run|install)|pip install)|(?:is|are) not installed\b"
        r"|PackageNotFoundError|ResolutionImpossible|no matching distribution"
        r"|could not find a version|DistributionNotFound|VersionConflict|ABI (?:mismatch"
        r"|incompatib)|is incompatible with|Parse error in file|Parsing error at"
        r"|binary incompatibility|numpy.dtype size changed|compiled (?:using|against"
        r"|with) .{0,40}(?:version|API)",
        "ModuleNotFoundError: No module named 'transformer_engine'",
        "installed 120 packages",
        _PY + "; ld.so; pip",
        Rank.SPECIFIC,
    ),
    Signature(
        "config.import",
        Label.CONFIG_ERROR,
        r"^(?:builtins\.)?ImportError\b(?!: cannot import name)",
        "ImportError: libGL.so.1: cannot open shared object file",
        "ImportError: cannot import name 'x' from 'y'",
        _PY,
        Rank.SYMPTOM,
        also=(Label.CODE_BUG,),
    ),
    Signature(
        "config.arguments",
        Label.CONFIG_ERROR,
        r"unrecognized arguments|invalid choice:|the following arguments are required"
        r"|\berror: argument|unknown (?:option|flag|argument|parameter|key|field)\b"
        r"|No such option|ConfigAttributeError|MissingMandatoryValue|ConfigKeyError"
        r"|MissingConfigException|Could not override|hydra\.errors|omegaconf\.errors"
        r"|ParserError|YAMLError|yaml\.(?:scanner|parser)|Invalid value for|UsageError"
        r"|InvalidConfig\w*|ConfigurationError|ConfigError|ArgumentError"
        r"|\d+ validation errors? for|ValidationError|unexpected key in config"
        r"|invalid (?:config\w*|configuration|setting|flag|option|argument|parameter)\b"
        r"|bad (?:config|flag|option|argument)|Unknown (?:config|model|dataset|optimizer"
        r"|scheduler)|JSONDecodeError.{0,60}config|unsupported (?:config|option|dtype|format"
        r"|backend)|(?:must|should) (?:be set|be specified|specify|be provided|not be (?:None"
        r"|empty))|mutually exclusive|is required (?:when|if|for)|(?:requires?"
        r"|must) .{0,60}to be set",
        "train.py: error: unrecognized arguments: --lrr 3e-4",
        "arguments: lr=3e-4",
        "argparse; Hydra; OmegaConf; pydantic; click",
        Rank.SPECIFIC,
    ),
    Signature(
        "config.divisible",
        Label.CONFIG_ERROR,
        r"(?:must|should|has to|needs to|to) be (?:evenly )?divisible by"
        r"|is not (?:evenly )?divisible|not a multiple of|must be a multiple"
        r"|world[ _]size .{0,60}(?:not|must|does|mismatch)|batch_size .{0,60}(?:not equal|must"
        r"|is not)|(?:micro|train)_batch.{0,60}(?:not equal|!=|divisible)|must be (?:greater"
        r"|less|smaller|larger|at least|at most|positive|one of|in \[|between|a power)"
        r"|expected one of|not in (?:list of )?(?:allowed|valid|supported)"
        r"|is not (?:a )?(?:valid|supported)\b(?! JSON| image| parquet| utf)",
        "AssertionError: num_layers should be divisible by pipeline_model_parallel_size",
        "divisible: yes",
        "Megatron-LM arguments.py; DeepSpeed runtime/config.py",
        Rank.SPECIFIC,
        also=(Label.CODE_BUG,),
    ),
    Signature(
        "config.credentials",
        Label.CONFIG_ERROR,
        r"Permission denied|PermissionError|AccessDenied|Access denied"
        r"|\b40[13]\b.{0,40}(?:Unauthori[sz]ed|Forbidden|Client Error|denied|caller)|(?:status"
        r"|code|HTTP|error)\w*[ =:]{1,3}40[13]\b|Unauthori[sz]ed\b|does not have (?:permission"
        r"|\S+ access|storage\.)|NoCredentials|DefaultCredentialsError"
        r"|Could not (?:automatically determine|load) (?:the )?(?:default )?credentials"
        r"|(?:invalid|expired|missing|bad|incorrect) (?:\w+ )?(?:credentials?|token|api[ _]key"
        r"|access key|password|certificate)|ExpiredToken|InvalidAccessKeyId"
        r"|SignatureDoesNotMatch|PERMISSION_DENIED|UNAUTHENTICATED|GatedRepoError|gated repo"
        r"|RepositoryNotFoundError|is not a local folder and is not|(?:token|key"
        r"|credentials?) (?:has |have )?(?:expired|is invalid|not found|revoked)"
        r"|not authori[sz]ed|authentication (?:failed|required|error)|Anonymous caller"
        r"|Error 403|forbidden:|CERTIFICATE_VERIFY_FAILED|x509: |Host key verification failed"
        r"|\(publickey\)|invalid_grant|Reauthentication|ErrImagePull|ImagePullBackOff"
        r"|InvalidImageName|Failed to pull image|pull access denied|manifest unknown"
        r"|manifest for .{0,80}not found",
        "google.auth.exceptions.DefaultCredentialsError: Could not automatically determine "
        "credentials.",
        "credentials loaded",
        "Google auth; AWS; Hugging Face Hub; kubelet",
        Rank.SPECIFIC,
    ),
    Signature(
        "config.path",
        Label.CONFIG_ERROR,
        r"No such file or directory|FileNotFoundError|\bENOENT\b|NotADirectoryError"
        r"|IsADirectoryError|FileExistsError|(?:file|path|directory|folder|bucket|script|module"
        r"|config)\b.{0,80}(?:does not exist|not found|doesn't exist|is not a directory"
        r"|could not be found)|NoSuchBucket|can't open file|can't cd to|NoSuchKey"
        r"|Cannot find .{0,40}file|No such object|\b404\b.{0,30}Not Found|Error 404|NotFoundError"
        r"|MountVolume\.SetUp failed|FailedMount|configmap .{0,60}not found"
        r"|secret .{0,60}not found|CreateContainerConfigError|CreateContainerError"
        r"|ContainerCannotRun|exec format error|NotFound: 404",
        "FileNotFoundError: [Errno 2] No such file or directory: '/data/train.yaml'",
        "found 12 files in directory",
        "Linux errno; Python; Kubernetes",
        Rank.GENERIC,
        also=(Label.DATA_ERROR, Label.CODE_BUG),
    ),
    Signature(
        "config.queue",
        Label.CONFIG_ERROR,
        r"(?:LocalQueue|ClusterQueue|PriorityClass|StorageClass|RuntimeClass|partition|qos"
        r"|account|queue|reservation|namespace|flavor|serviceaccount)\b.{0,60}(?:does(?:n't"
        r"| not) exist|not found|invalid|not specified|unknown|not available for)"
        r"|Invalid (?:partition|account|qos|queue|job array|feature|generic resource|node name)"
        r"|invalid partition specified|Requested (?:time|partition|node) limit is invalid"
        r"|Unable to contact .{0,20}registry|admission webhook .{0,100}denied"
        r"|spec\.\S+: (?:Invalid value|Required value|Forbidden|Unsupported value)"
        r"|error validating data",
        "sbatch: error: Batch job submission failed: Invalid partition name specified",
        "LocalQueue: main, 3 admitted",
        "SLURM; Kueue; Kubernetes API",
        Rank.ROOT,
    ),
    Signature(
        "config.port",
        Label.CONFIG_ERROR,
        r"Address already in use|EADDRINUSE|\[Errno 98\]|port .{0,20}(?:already|is) in use"
        r"|bind: address already",
        "RuntimeError: The server socket has failed to listen: Address already in use",
        "listening on port 29500",
        "Linux errno; c10d TCPStore",
        Rank.SPECIFIC,
        outlook=Outlook.RETRY_ONCE,
    ),
    Signature(
        "config.devices",
        Label.CONFIG_ERROR,
        r"(?:number of|num_?|n_?)(?:gpus?|devices|nodes|processes|ranks|cores"
        r"|nprocs)\b.{0,60}(?:does not match|mismatch|exceeds|greater than|larger than|must"
        r"|should|unsupported|not equal)|environment variable .{0,60}(?:expected|not set"
        r"|missing|required|undefined)|(?:MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK|LOCAL_RANK"
        r"|HF_TOKEN|\w+_API_KEY)\b.{0,40}(?:expected|not set|missing|required|is unset"
        r"|undefined)|Default process group has not been initialized"
        r"|init_process_group.{0,40}(?:not been|before)|(?-i:KeyError: '[A-Z][A-Z0-9_]{3,}')"
        r"|(?:API|api)[ _]key not (?:configured|set|found|provided)"
        r"|is not set in the environment|Too many open files|\[Errno 24\]"
        r"|FlashAttention only supports|(?:ImportError|Error:).{0,60}requires .{0,60}[<>]=?",
        "ValueError: Error initializing torch.distributed: environment variable MASTER_ADDR "
        "expected, but not set",
        "number of gpus: 8",
        "PyTorch; Hugging Face accelerate; shells",
        Rank.SPECIFIC,
        also=(Label.CODE_BUG,),
    ),
)
