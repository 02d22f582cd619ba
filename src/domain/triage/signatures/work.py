"""What a run works on and what it keeps: data, numbers, checkpoints."""

from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_ARROW = "Apache Arrow; Parquet"
_HF = "Hugging Face datasets and tokenizers"
_ORBAX = "Orbax; tensorstore; Levanter"
_DCP = "PyTorch, torch.distributed.checkpoint and torch/serialization.py"

DATA = (
    Signature(
        "data.parquet",
        Label.DATA_ERROR,
        r"Parquet magic bytes|ArrowInvalid|ArrowTypeError|ArrowNotImplementedError"
        r"|Could not (?:open|read schema from|read) .{0,60}(?:Parquet|parquet|schema|arrow)"
        r"|Is this a 'parquet' file|Couldn't deserialize thrift|Not an Arrow file|ParquetError"
        r"|(?:schema|column|feature)s?\b.{0,60}(?:mismatch|do(?:es)?n't match|do not match"
        r"|not found in|missing)|CastError|Couldn't cast|schema at index .{0,20}was different"
        r"|invalid (?:parquet|arrow|feather|avro|orc)|Corrupt snappy|Unexpected end of stream",
        "pyarrow.lib.ArrowInvalid: Parquet magic bytes not found in footer.",
        "reading Parquet file 3 of 12",
        _ARROW,
        Rank.SPECIFIC,
    ),
    Signature(
        "data.json",
        Label.DATA_ERROR,
        r"JSONDecodeError|JSON parse error|Extra data: line|Expecting value: line"
        r"|Unterminated string|Expecting ',' delimiter|invalid (?:json|csv|jsonl)"
        r"|malformed (?:json|csv|record|line|row|input|data|example)|Failed to parse (?:json"
        r"|line|record|example)|UnicodeDecodeError|codec can't decode|invalid (?:start"
        r"|continuation) byte|Error tokenizing data|DataFrame.{0,20}ParserError"
        r"|Invalid control character",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "writing JSON lines",
        "Python json; pandas; pyarrow",
        Rank.SYMPTOM,
        also=(Label.NETWORK,),
    ),
    Signature(
        "data.images",
        Label.DATA_ERROR,
        r"UnidentifiedImageError|cannot identify image|image file is truncated"
        r"|broken data stream|DecompressionBomb|corrupt(?:ed)? (?:jpeg|image|png|video|audio"
        r"|webp)|imread.{0,30}(?:fail|empty)|moov atom not found"
        r"|Invalid data found when processing input|DECORDError|LibsndfileError"
        r"|Error opening .{0,60}(?:wav|flac|mp3)|Premature end of JPEG|Could not (?:load"
        r"|decode) (?:image|audio|video)",
        "PIL.UnidentifiedImageError: cannot identify image file <_io.BytesIO>",
        "images decoded: 120",
        "Pillow; OpenCV; FFmpeg; libsndfile",
        Rank.SPECIFIC,
    ),
    Signature(
        "data.corrupt",
        Label.DATA_ERROR,
        r"DataLossError|corrupted record|(?:data|file|record|shard|sample|example|index|dataset"
        r"|archive|tar|zip|gzip|cache)\b.{0,40}(?:is |are |was |appears )?(?:corrupt|truncated"
        r"|damaged|malformed)|(?:corrupt|truncated|damaged)(?:ed)? (?:data|file|record|shard"
        r"|sample|example|index|dataset|archive|tar|zip|gzip|cache|row|header|footer)"
        r"|BadGzipFile|Not a gzipped file|does not look like a tar|tarfile\.ReadError"
        r"|BadZipFile|not a zip file|unexpected end of (?:data|file)"
        r"|Compressed file ended before|zlib\.error|LZMAError|ZstdError"
        r"|Error -3 while decompressing|CRC check failed|checksum (?:mismatch|error|fail)"
        r"|ChecksumVerification|NonMatchingChecksumError|NonMatchingSplitsSizes|hash mismatch"
        r"|ExpectedMoreSplits|Bad magic|invalid magic",
        "DataLossError: corrupted record at 1234",
        "records read: 120",
        "TensorFlow; tar; gzip; " + _HF,
        Rank.SPECIFIC,
    ),
    Signature(
        "data.missing",
        Label.DATA_ERROR,
        r"EmptyDatasetError|DataFilesNotFoundError|DatasetNotFoundError|DatasetGenerationError"
        r"|(?:dataset|shard|split|corpus|cache|training data|epoch)s?\b.{0,50}(?:is |are "
        r"|was )?(?:empty\b|missing\b|has no (?:rows|samples|examples|shards)|contains no"
        r"|not (?:complete|finished))|no (?:data|samples|examples|rows|shards|training (?:data"
        r"|examples)|files?) (?:were |was |are )?(?:found|left|available|matched|in (?:dataset"
        r"|split|shard))|num_samples should be a positive|No (?:parquet|jsonl?|tar|arrow|data"
        r"|audio|image) files|(?:Metadata at .{0,200}does not exist)|zarr\.json"
        r"|ArrayNotFoundError|GroupNotFoundError|missing shards?|samples? .{0,20}(?:has"
        r"|have) (?:none|no (?:field|column))|row \d+ (?:has|is)|(?:no more|ran out of) (?:data"
        r"|samples|examples)|Unknown split|(?:not found|missing|absent) in (?:the )?(?:dataset"
        r"|batch|example|record|sample|row)",
        "datasets.exceptions.DataFilesNotFoundError: No (supported) data files found in acme/x",
        "dataset has 12 shards",
        _HF + "; zarr; PyTorch DataLoader",
        Rank.SPECIFIC,
    ),
    Signature(
        "data.reader",
        Label.DATA_ERROR,
        r"(?:in DataLoader worker process|load_next_batch\(\) failed|error(?:s)? (?:while "
        r"|in )?(?:load|read|pars|decod|process|tokeniz)\w* .{0,40}(?:shard|sample|record"
        r"|example|row|dataset|batch|document|parquet|tfrecord))|fail(?:ed|s) to (?:load|read"
        r"|parse|decode|process|open) .{0,40}(?:shard|sample|record|example|row|dataset|batch"
        r"|document|parquet|tfrecord|image|audio|video)|Feature: .{0,60}(?:required but"
        r"|data type)|Could not parse example|Data types don't match"
        r"|index file .{0,60}(?:mismatch|does not match|not match)"
        r"|IndexedDataset.{0,60}(?:mismatch|invalid)|Index file doesn't match|Malformed\w*File",
        "ValueError: Caught ValueError in DataLoader worker process 0.",
        "DataLoader workers: 8",
        "PyTorch DataLoader; Grain; TFRecord; Megatron",
        Rank.SYMPTOM,
    ),
    Signature(
        "data.tokens",
        Label.DATA_ERROR,
        r"token(?:s|_ids?| ids?| indices)?\b.{0,60}(?:out of (?:range|bounds|vocab)"
        r"|exceeds? .{0,20}vocab|>= ?vocab|larger than .{0,20}vocab|outside)"
        r"|vocab(?:ulary)?(?:[ _]size)?\b.{0,60}(?:mismatch|does(?:n't| not) match|differ"
        r"|smaller than)|tokenizer\b.{0,60}(?:mismatch|does(?:n't| not) match|differs?|changed"
        r"|wrong)|Token indices sequence length is longer .{0,80}error|wrong (?:tokenizer"
        r"|schema|dtype in data)|labels? .{0,30}out of (?:range|bounds)"
        r"|Target \d+ is out of bounds|extra backslashes|dedup step"
        r"|duplicate(?:d)? (?:documents|data|examples|ids?)\b.{0,40}(?:found|detected|in)",
        "ValueError: token id 50304 out of range for vocab of 50257",
        "tokens seen: 1.2B",
        _HF + "; PyTorch",
        Rank.SPECIFIC,
    ),
)

NUMERICS = (
    Signature(
        "nan.metric",
        Label.NUMERICAL,
        r"(?:loss(?:_\w{1,24})?|norm|grad\w*|logits?|perplexity|ppl|param\w*|weight\w*|z_loss|kl|reward)\b[^"
        r"|,;\n]{0,24}?(?::|=|: |= |:  |=  |is |became |value |tensor\(|'|\")[-+]?(?:nan|inf"
        r"|infinity)\b(?!\w|[ -]?(?:check|iter|count|guard|filter|=|:))",
        "epoch: 3451 loss: nan",
        "number of nan iterations: 0",
        "training loops",
        Rank.SPECIFIC,
    ),
    Signature(
        "nan.words",
        Label.NUMERICAL,
        r"\b(?:loss|grad\w*|logits|norm|weights|perplexity)\b[^|\n]{0,40}(?: |=|:"
        r"|\()nan\b(?![ _-]?(?:iter|check|=|:|guard|filter|policy|handl))|(?:loss|perplexity"
        r"|ppl).{0,40}(?:increas|grow|ris|shoot|jump|climb|goes? up|went up"
        r"|explod)\w* .{0,30}(?:rapidly|suddenly|sharply|steadily|after|again|from|dramatically"
        r"|and never|instead)|(?:found|detected|encountered|got|contains?|produced|returned|has"
        r"|have|hit|saw|with|became|unexpected result|going|went|goes) (?:an? )?(?:NaNs?|infs?"
        r"|non-?finite|infinity)\b(?! check)|(?:NaN|Inf|non-?finite)(?: or (?:NaN"
        r"|Inf))?s? (?:(?:loss|grad\w*|values?|norm|params?|weights?|logits|tensors?"
        r"|activations?).{0,20}(?:detected|found|encountered|at|in|on|error|seen|appear)"
        r"|detected|found|encountered|in (?:loss|grad|local|input|output|param|forward|backward"
        r"|the))|(?:loss|grad\w*|norm|value) (?:is|are|was|became|went|turned|being"
        r"|to) (?:\w+ )?(?:nan\b|inf(?:[ .,;:/)\]'\"]|$)|infinite|not finite|non-?finite)"
        r"|(?<!typeerror: )loss is not (?:finite|a number)\b"
        r"|NanLoss\w*|not\.? finite\b|returned nan values|invalid value \(nan\)"
        r"|FloatingPointError|debug_nans|skipped .{0,30}(?:NaN"
        r"|non-finite) .{0,40}(?:consecutive|in a row|too many)|inf(?:inity)? or nan|nan or inf"
        r"|tensor\([ \[]*-?(?:nan|inf)\b",
        "RuntimeError: Function 'MulBackward0' returned nan values in its 0th output.",
        "nan check enabled",
        "PyTorch anomaly detection; JAX debug_nans; Megatron",
        Rank.SPECIFIC,
    ),
    Signature(
        "nan.word",
        Label.NUMERICAL,
        r"(?-i:\bNaNs?\b)(?![- ]?(?:check|guard|filter|policy|detect|iter|[- ]?safe|aware|=|:"
        r"|values? (?:as|in data)))|\bgoes to (?:nan|inf)\b|\bturns? (?:into |to )?nans?\b"
        r"|\bnans? in\b|\binf grad|\boverflow(?:s|ed|ing)? (?:on|at) every\b",
        "we keep getting NaN after the warm-up",
        "NaN checks enabled",
        "prose; training loops",
        Rank.SYMPTOM,
    ),
    Signature(
        "nan.iterations",
        Label.NUMERICAL,
        r"nan iterations: ?[1-9]",
        "iteration 20/ 100 | number of nan iterations: 3 |",
        "number of nan iterations: 0 |",
        "Megatron-LM training.py",
        Rank.SPECIFIC,
    ),
    Signature(
        "nan.diverged",
        Label.NUMERICAL,
        r"\b(?:model|training|loss|run|optimi[sz]ation)\b.{0,20}(?:has |have |is )?diverg(?:ed"
        r"|ing|es|ence)|diverged with loss|loss (?:has )?(?:explod|blew up|spik|diverg|shot up"
        r"|jump)|(?:gradient|grad[- _]?norm|loss|activation)s?\b.{0,30}(?:explo(?:d|sion)"
        r"|blow[- ]?up|blew up)|explod(?:ing|ed) (?:gradient|loss)|loss spike|(?:hit|had"
        r"|saw) an? (?:\w+ )?spike|numerical(?:ly)? (?:instab|unstab|overflow|underflow)"
        r"|unstable training",
        "ERROR:tensorflow:Model diverged with loss = NaN.",
        "converged at step 900",
        "TensorFlow NanTensorHook; chronicles of OPT and BLOOM",
        Rank.SPECIFIC,
    ),
    Signature(
        "nan.loss-scale",
        Label.NUMERICAL,
        r"loss scale.{0,40}(?:minimum|underflow|floor|too small|at its min|below|reached)"
        r"|Minimum loss scale reached|(?:Current )?loss scale already at minimum"
        r"|min_loss_scale.{0,20}reached|loss scale (?:has )?(?:decreas|drop|fall).{0,30}(?:to"
        r"|below|until|under)|cannot decrease scale|loss[ _]scale\b.{0,6}(?:0\.0"
        r"|[0-9.]+e-\d+)\b|Attempted unscale_ but|gradient overflow.{0,40}(?:consecutive"
        r"|times in a row)",
        "Exception: Current loss scale already at minimum - cannot decrease scale anymore.",
        "loss scale: 65536.0",
        "DeepSpeed loss_scaler.py; fairseq",
        Rank.ROOT,
    ),
    Signature(
        "nan.reproducible",
        Label.NUMERICAL,
        r"rerun_state_machine.{0,40}Unexpected result|unexpected result .{0,20}(?:nan|inf"
        r"|spiky)|spiky loss|LinAlgError|singular matrix|not positive[- ]definite"
        r"|did not converge|silent data corruption|\bSDC\b.{0,30}(?:detect|found|suspect)",
        "ERROR:megatron.core.rerun_state_machine:Unexpected result nan on rank 3",
        "rerun_state_machine initialised",
        "Megatron-LM rerun_state_machine.py; LAPACK",
        Rank.SPECIFIC,
        also=(Label.NODE_FAILURE,),
    ),
)

CHECKPOINTS = (
    Signature(
        "ckpt.state-dict",
        Label.CHECKPOINT_ERROR,
        r"Error\(s\) in loading state_dict|(?:Missing"
        r"|Unexpected) key\(?s?\)? in (?:checkpoint )?(?:state_dict|source)"
        r"|size mismatch for \S+: copying|CheckpointException|(?:state_dict|metadata|param\w*"
        r"|tree|pytree|optimizer state)\b.{0,60}(?:mismatch|do(?:es)?(?:n't| not) match"
        r"|structure differ|missing keys?|unexpected keys?)"
        r"|User-provided restore item and on-disk value|KeyError: '(?:state|model|optim\w*"
        r"|module)[.']|Missing key in checkpoint|state_dict_metadata|loaded state dict (?:has"
        r"|contains)|doesn't match the size of optimizer|different number of parameter groups"
        r"|Dict key mismatch",
        "RuntimeError: Error(s) in loading state_dict for LlamaForCausalLM:",
        "loaded state_dict with 291 keys",
        _DCP + "; " + _ORBAX,
        Rank.SPECIFIC,
        also=(Label.CONFIG_ERROR, Label.CODE_BUG),
    ),
    Signature(
        "ckpt.missing",
        Label.CHECKPOINT_ERROR,
        r"(?:checkpoint|ckpt|latest_checkpointed_iteration|global_step\d+|snapshot|resume state"
        r"|model\.safetensors|pytorch_model\.bin|trainer_state"
        r"|optimizer\.pt)\S*\b.{0,50}(?:not found|does not exist|doesn't exist|is missing"
        r"|could not (?:be )?(?:found|load)|missing file|No such file|is incomplete"
        r"|unable to (?:find|load)|is empty|no metadata)|(?:could not|cannot|can't|unable to"
        r"|failed to) (?:find|locate|load|restore|resume|read|deserialize"
        r"|open).{0,60}(?:checkpoint|ckpt|snapshot|state_dict|safetensors)|(?:no|No) (?:such "
        r"|valid |complete |usable )?checkpoints? (?:was |were |found |available|could|exist|at"
        r"|in)|orbax-checkpoint-tmp|(?:No such file|FileNotFoundError"
        r"|not found).{0,120}(?:checkpoint|ckpt|global_step)"
        r"|Error no file named .{0,120}found in directory",
        "FileNotFoundError: checkpoint step 0 not found in gs://b/ckpt",
        "checkpoint found at step 900",
        _ORBAX + "; transformers; DeepSpeed",
        Rank.SPECIFIC,
        also=(Label.CONFIG_ERROR,),
    ),
    Signature(
        "ckpt.corrupt",
        Label.CHECKPOINT_ERROR,
        r"PytorchStreamReader failed|failed finding central directory"
        r"|invalid header or archive is corrupt|HeaderTooLarge|InvalidHeaderDeserialization"
        r"|SafetensorError|MetadataIncompleteBuffer|(?:checkpoint|ckpt|snapshot|state_dict"
        r"|safetensors)\b.{0,60}(?:corrupt|truncated|invalid|checksum|damaged|unreadable)"
        r"|(?:corrupt|truncated|partial|incomplete)\w* (?:checkpoint|ckpt|snapshot)"
        r"|UnpicklingError|invalid load key|Weights only load failed|Ran out of input"
        r"|OCDBT.{0,60}(?:error|missing|not found)",
        "RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central "
        "directory",
        "checkpoint verified",
        _DCP + "; safetensors",
        Rank.SPECIFIC,
    ),
    Signature(
        "ckpt.save",
        Label.CHECKPOINT_ERROR,
        r"PytorchStreamWriter failed|file write failed|(?:error|fail\w*|exception|could not"
        r"|cannot|unable).{0,40}(?:sav|writ|commit|finaliz|upload|persist"
        r"|serializ)\w* .{0,40}(?:checkpoint|ckpt|snapshot|state_dict)|(?:checkpoint|ckpt"
        r"|snapshot)\w*\b.{0,40}(?:sav\w+|writ\w+|commit\w*|upload\w*|finaliz\w+"
        r"|async\w*).{0,40}(?:fail|error|exception|timed? ?out|abort|stuck|never (?:finish"
        r"|complet))|(?:sav\w+|writ\w+) (?:of )?(?:the )?(?:checkpoint|ckpt).{0,30}(?:fail"
        r"|error|timed)|Error handling checkpoint|iostream error|unexpected pos \d+ vs \d+"
        r"|Failed to commit|checkpoint (?:failed|failure|error)|failed checkpoint"
        r"|async_?checkpoint\w*.{0,60}(?:error|fail|exception)"
        r"|Destination .{0,100}already exists",
        "RuntimeError: PytorchStreamWriter failed writing file data/180: file write failed",
        "saved checkpoint at step 900",
        _DCP + "; " + _ORBAX,
        Rank.SYMPTOM,
        also=(Label.DISK_FULL,),
    ),
    Signature(
        "ckpt.restore",
        Label.CHECKPOINT_ERROR,
        r"(?:error|fail\w*|exception|unable|could not|cannot|can't).{0,50}(?:load|restor|resum"
        r"|reshard|deserializ)\w* .{0,50}(?:checkpoint|ckpt|snapshot|state|optimizer)"
        r"|(?:load\w*|restor\w*|resum\w*|reshard\w*)\b.{0,40}(?:checkpoint|ckpt"
        r"|snapshot)\w*.{0,40}(?:fail|error|exception|timed? ?out|abort|mismatch)"
        r"|could not find arguments in the checkpoint|checkpoint .{0,60}(?:was (?:saved|created"
        r"|trained) with|from a different|not compatible|incompatible|mismatch)"
        r"|Cannot load (?:a )?checkpoint|(?:ZeRO|zero) .{0,40}checkpoint.{0,40}(?:world size|dp"
        r"|mismatch)|rng state.{0,40}(?:missing|mismatch)|different (?:world size|topology|mesh"
        r"|parallel\w*).{0,60}(?:checkpoint|resum|restor)"
        r"|is not compatible with the stored shape|ShapeDtypeStruct .{0,60}checkpoint"
        r"|Unable to (?:load|restore)",
        "Failed to restore checkpoint from step 900",
        "restored checkpoint from step 900",
        _ORBAX + "; Megatron-LM checkpointing.py",
        Rank.SPECIFIC,
    ),
)
