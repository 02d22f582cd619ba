"""Remote services and networks that fail in a way that may pass."""

from watchkeeper.domain.triage.signatures.model import Label, Rank, Signature

_ALONE = (
    r"(?=\s*$|\s*[)\]\"'}.;:!/|<-](?!\d)|,(?! ?(?:expected|but|not|want|instead|\d))| (?:for|on"
    r"|when|from|while|after|response|https?|server|client|error|url|too many r|rate|retr"
    r"|service|bad g|gateway|internal|and\b|in response|status))"
)
"""What may follow a status number that no word of HTTP comes before: no count of things."""

_HTTP = "RFC 9110; requests; urllib3; aiohttp; curl"

NETWORK = (
    Signature(
        "net.http-5xx",
        Label.NETWORK,
        r"\b50[0234]\b.{0,30}(?:Server Error|Internal (?:Server )?Error|Bad Gateway"
        r"|Service (?:Temporarily )?Unavailable|Gateway Time-?out|Backend Error|backendError"
        r"|Slow Down)|HTTP/\d(?:\.\d)? 50[0234]|(?:\bHTTP\w*|status(?:_?code)?"
        r"|(?<![a-z])code|statuscode)[ =:\"']{1,4}(?:code )?50[0234]\b" + _ALONE + r"|error"
        r"[ =:\"']{1,4}(?:code )?50[0234]\b" + _ALONE + r"|Service Unavailable|Bad Gateway"
        r"|Gateway Time-?out|InternalServerError|Internal Server Error|ServiceUnavailable"
        r"|\bBackend ?Error|We encountered an internal error|server overloaded"
        r"|upstream (?:connect error|request timeout)|error \(50[0234]\)"
        r"|temporarily unavailable(?! on this)|(?:error|status|http|code|response)\w* ?\[50[0234]\]"
        r"|\b50[0234]:? (?:response|from (?:the |a |an |our )?(?:\w+ ){0,2}(?:server|https?|gs:|s3"
        r"|storage|api|upstream|proxy|gateway|backend|host|bucket|gcs|registry|hub|endpoint))",
        "gcsfs.utils.HttpError: 502 Server Error: Bad Gateway",
        "step 503 of 5155",
        _HTTP,
    ),
    Signature(
        "net.throttled",
        Label.NETWORK,
        r"Too Many Requests|rateLimitExceeded|rate[- ]limit(?:ed|ing| exceeded)|SlowDown\b"
        r"|(?<![\w.,/-])429[ :,-]{1,3}(?:client error|error\b|too many req|rate[ -]limit"
        r"|resource.?exhausted)"
        r"|(?:got|returned|received|with) (?:an? )?429\b"
        + _ALONE
        + r"|(?:\bHTTP\w*|status(?:_?code)?"
        r"|(?<![a-z])code|error)[ =:\"'(]{1,4}429\b"
        + _ALONE
        + r"|ThrottlingException|RequestLimitExceeded|Throttl(?:ed"
        r"|ing)(?:Exception|Error)?\b.{0,40}(?:request|api|error|exceeded|rate)"
        r"|Please reduce your request rate|exceeded .{0,30}rate limit|TooManyRequests"
        r"|RESOURCE_EXHAUSTED.{0,60}(?:rate|request)",
        "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://a.b",
        "elapsed time per iteration (ms): 429.1 | learning rate: 9.702E-05",
        _HTTP,
    ),
    Signature(
        "net.reset",
        Label.NETWORK,
        r"Connection (?:was )?(?:reset|aborted|broken|timed? ?out|dropped)|ECONNRESET"
        r"|ECONNREFUSED|ETIMEDOUT|\[Errno (?:104|110|111|113|101|32)\]|Broken pipe"
        r"|Connection refused|Connection closed(?! by (?:localRank|remote peer))"
        r"|Remote end closed connection|Server ?Disconnected|RemoteDisconnected|IncompleteRead"
        r"|ProtocolError|No route to host|Network is unreachable|socket hang up"
        r"|EOF occurred in violation|unexpected EOF|transport endpoint is not connected"
        r"|stale file handle|\bESTALE\b|ChunkedEncodingError|ClientConnectorError|ClientOSError"
        r"|ClientPayloadError|NewConnectionError|MaxRetryError|Max retries exceeded|RetryError"
        r"|connection failure|Failed to establish a new connection|connection (?:was )?lost"
        r"|lost connection",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "connection pool size: 10",
        _HTTP,
        Rank.SYMPTOM,
    ),
    Signature(
        "net.timeout",
        Label.NETWORK,
        r"(?:Read|Connect|Request|Socket|Http|Server|Client|Gateway|ReadWrite"
        r"|Pool)Timeout(?:Error)?\b|read (?:operation )?timed out|Read timed out"
        r"|request (?:has )?timed out|Timeout (?:was )?reached|operation timed out|i/o timeout"
        r"|net/http: .{0,40}timeout|(?:download|upload|fetch|read|write|rpc|api|http|s3|gcs|gs"
        r"|query|metadata)\w* .{0,40}timed out|context deadline exceeded|DEADLINE_?EXCEEDED"
        r"|Deadline Exceeded|ConnectTimeout|stalled (?:read|download|stream)|upload stalled"
        r"|FSTimeoutError|asyncio.{0,20}TimeoutError",
        "requests.exceptions.ReadTimeout: HTTPSConnectionPool: Read timed out. (read timeout=60)",
        "timeout: 600",
        _HTTP,
        Rank.SYMPTOM,
    ),
    Signature(
        "net.grpc",
        Label.NETWORK,
        r"StatusCode\.UNAVAILABLE|\bUNAVAILABLE: |code = Unavailable"
        r"|failed to connect to all addresses|GOAWAY|RST_STREAM|recvmsg:|Socket closed"
        r"|GrpcError|keepalive watchdog|rpc error: code = (?:Unavailable|DeadlineExceeded"
        r"|Internal)|stream (?:removed|terminated)|ServiceException|HttpError: Required\b"
        r"|server closed the (?:connection|stream)",
        "grpc.RpcError: StatusCode.UNAVAILABLE: failed to connect to all addresses",
        "gRPC server listening",
        "gRPC status codes",
        Rank.SYMPTOM,
    ),
    Signature(
        "net.dns",
        Label.NETWORK,
        r"Temporary failure in name resolution|Name or service not known|Could not resolve host"
        r"|getaddrinfo (?:failed|ENOTFOUND|EAI_AGAIN)|nodename nor servname|NameResolutionError"
        r"|DNS resolution failed|no such host|Failed to resolve|EAI_AGAIN|server misbehaving",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "resolved host a.b in 3 ms",
        "glibc getaddrinfo; curl; Go net",
    ),
    Signature(
        "net.tls",
        Label.NETWORK,
        r"SSL(?:Error|EOFError|ZeroReturnError)|ssl\.SSL\w+|TLS handshake timeout"
        r"|SSL_ERROR_SYSCALL|handshake (?:failure|operation timed out)|GnuTLS recv error"
        r"|gnutls_handshake",
        "ssl.SSLEOFError: EOF occurred in violation of protocol (_ssl.c:1007)",
        "tls: enabled",
        "Python ssl; OpenSSL; Go crypto/tls",
    ),
    Signature(
        "net.storage",
        Label.NETWORK,
        r"(?:gcs|gs://|s3|s3://|storage|bucket|object|blob|gcsfuse|lustre|nfs|weka|ceph|fsspec"
        r"|boto|azure|minio)\b.{0,120}(?:internal error|INTERNAL:|unavailable|transient"
        r"|not responding|Input/output error|still trying|timed? ?out|retries? exhausted)"
        r"|\[Errno 5\]|Input/output error|EndpointConnectionError|StorageException"
        r"|googleapi: Error 50\d|TransportError|nfs: server .{0,60}not responding|LustreError"
        r"|Cannot send after transport endpoint shutdown|Remote I/O error"
        r"|git.{0,30}(?:RPC failed|early EOF)|fatal: the remote end hung up"
        r"|InternalError.{0,60}(?:PutObject|GetObject|UploadPart|ListObjects|CompleteMultipart)"
        r"|(?:PutObject|GetObject|UploadPart|ListObjects\w*"
        r"|HeadObject) operation.{0,60}(?:reach|internal|slow|timeout|unavailable)"
        r"|Error reading \"?(?:gs|s3)://",
        "nfs: server 10.0.0.9 not responding, timed out",
        "gs://bucket/ckpt written in 12 s",
        "Google Cloud Storage; AWS S3; Linux NFS; Lustre",
    ),
    Signature(
        "net.hub",
        Label.NETWORK,
        r"couldn't connect to .{0,10}https?://|(?:huggingface\.co|hf\.co|pypi\.org|github\.com"
        r"|docker\.io|ghcr\.io|gcr\.io).{0,160}(?:timed? ?out|unavailable|50\d\b|reset|refused"
        r"|connection error|max retries)|LocalEntryNotFoundError|HfHubHTTPError.{0,20}(?:50\d"
        r"|429)|Connection error, and we cannot find|cannot (?:connect|reach).{0,40}(?:hub"
        r"|server|host|internet)|Could not (?:reach|connect to) |Error communicating with"
        r"|toomanyrequests:",
        "OSError: We couldn't connect to 'https://huggingface.co' to load this file",
        "loaded from huggingface.co cache",
        "Hugging Face Hub; container registries",
    ),
    Signature(
        "net.words",
        Label.NETWORK,
        r"network (?:error|failure|issue|outage|glitch)\b",
        "download failed: network error",
        "network errors: 0",
        "many programs; NCCL says so of a peer that is gone, whatever ended it",
        Rank.SYMPTOM,
    ),
    Signature(
        "net.python-timeout",
        Label.NETWORK,
        r"^(?:\w+\.)*(?:ConnectionError|ConnectionAbortedError|ConnectionResetError"
        r"|ConnectionRefusedError|BrokenPipeError|TimeoutError|HTTPError|URLError|HttpError"
        r"|ClientError|ApiException|gaierror|socket\.timeout)\b",
        "ConnectionError: HTTPSConnectionPool(host='a.b', port=443)",
        "timeout_s: 60",
        "Python built-in exceptions; requests",
        Rank.SYMPTOM,
    ),
)
