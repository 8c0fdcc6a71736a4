"""Every setting, with its default. QM_<NAME> in the environment overrides any of them."""

from __future__ import annotations


class Settings:
    """The settings that all environments share."""

    # Which of development, production and testing this is (QM_ENV).
    ENV: str = "development"
    # Signs access tokens; 32 or more characters but commas. Development keeps its own in DATA_DIR.
    SECRET_KEY: str | None = None
    # Former SECRET_KEYs, separated by commas, whose tokens are still accepted.
    SECRET_KEY_FALLBACKS: list[str] = []

    # The MongoDB to use. Development without one starts its own.
    MONGODB_URI: str | None = None
    # The database, unless the URI names one.
    MONGODB_DATABASE: str = "quartermaster"
    # How long to look for a usable server before a request ends in 503.
    MONGODB_SELECTION_SECONDS: float = 3.0
    # How long one request may take at the database in all, retries included; then it ends in 503.
    MONGODB_OPERATION_SECONDS: float = 5.0
    # The most connections that one worker opens to a server.
    MONGODB_POOL_SIZE: int = 32
    # The mongod program of the embedded server; otherwise the wheel's, then the PATH's.
    MONGOD: str | None = None
    # The memory that the embedded server may use as its cache.
    EMBEDDED_CACHE_GB: float = 1.0
    # Where the embedded server, development's secret and its outgoing mail are kept.
    DATA_DIR: str = "var"

    # The address to listen on.
    HOST: str = "127.0.0.1"
    # The port to listen on.
    PORT: int = 8000
    # A Unix socket to listen on instead; whoever is in the program's group may use it.
    SOCKET: str | None = None
    # How many worker processes serve requests.
    WORKERS: int = 2
    # How many requests of one worker may be at the database at a time.
    THREADS: int = 8
    # A worker that is stuck for this long is replaced.
    WORKER_TIMEOUT_SECONDS: int = 30
    # How long a stopping worker may finish what it has begun.
    GRACEFUL_TIMEOUT_SECONDS: int = 20
    # How many connections one worker holds; then who has been silent for longest is closed.
    CONNECTIONS: int = 1000
    # How long a client may take to send the head of a request, from its first byte on.
    HEAD_SECONDS: float = 10.0
    # How long a client may take to send the body of a request, from the end of the head on.
    BODY_SECONDS: float = 30.0
    # How long a client may take to read an answer that does not leave us at once.
    SEND_SECONDS: float = 30.0
    # How long a connection may be idle between two requests.
    KEEPALIVE_SECONDS: int = 65
    # How long a stopping worker still serves an idle connection; more than a proxy keeps one.
    DRAIN_SECONDS: float = 3.0
    # After how many requests a worker is replaced, so that nothing grows for ever; 0: never.
    MAX_REQUESTS: int = 100_000
    # At most so many requests later, by chance, so that workers are not replaced all at once.
    MAX_REQUESTS_JITTER: int = 10_000
    # The largest request body in bytes.
    MAX_CONTENT_LENGTH: int = 1024 * 1024
    # Whether to take forms, field names in any case, "1" and "true", and ignore unknown fields.
    LENIENT_BODIES: bool = False

    # How long an access token lives.
    ACCESS_TOKEN_SECONDS: int = 300
    # How long a refresh token lives.
    REFRESH_TOKEN_SECONDS: int = 7 * 24 * 3600
    # How many refresh tokens an account may have; beyond, the oldest end with their access tokens.
    REFRESH_TOKENS_PER_ACCOUNT: int = 2000
    # How old a worker's knowledge of a caller's roles and tokens may be; 0 asks every time.
    AUTH_CACHE_SECONDS: float = 5.0
    # How long a worker remembers a right password, so as not to hash it again; 0: not at all.
    PASSWORD_CACHE_SECONDS: float = 60.0
    # How many passwords one worker checks at a time.
    HASH_PLACES: int = 2
    # How many requests of one worker may wait for that; further ones end in 503.
    HASH_LINE: int = 16
    # argon2id: passes over the memory.
    ARGON2_TIME_COST: int = 2
    # argon2id: memory in KiB.
    ARGON2_MEMORY_KIB: int = 19456
    # argon2id: lanes.
    ARGON2_PARALLELISM: int = 1

    # How many proxies in front of us are trusted to name the client's address; 0: nobody.
    TRUSTED_PROXIES: int = 0
    # How many wrong passwords or codes an account takes before it must wait.
    ACCOUNT_FAILURES: int = 10
    # How many times a client address may fail to get a token before it must wait.
    ADDRESS_FAILURES: int = 100
    # How many wrong passwords, codes or names a caller may ask about before it must wait.
    CALLER_FAILURES: int = 1000
    # How many requests a caller may make in a minute; 0: any number.
    REQUESTS_PER_MINUTE: int = 0
    # The time over which failures are counted, from the first on.
    FAILURE_WINDOW_SECONDS: int = 600

    # The mail server. Without one, development writes mails to DATA_DIR/outbox.
    MAIL_SERVER: str | None = None
    # Its port.
    MAIL_PORT: int = 25
    # Whether to turn the connection into TLS by STARTTLS.
    MAIL_USE_TLS: bool = False
    # Whether to begin with TLS.
    MAIL_USE_SSL: bool = False
    # The certificates to trust, where the system's do not do.
    MAIL_CA_FILE: str | None = None
    # The account to send with, if the server wants one.
    MAIL_USERNAME: str | None = None
    # Its password.
    MAIL_PASSWORD: str | None = None
    # Whom mails come from.
    MAIL_DEFAULT_SENDER: str = "Quartermaster <noreply@localhost>"
    # How many mails one worker sends at a time.
    MAIL_PLACES: int = 2
    # How many requests of one worker may wait for that; further ones end in 503.
    MAIL_LINE: int = 2
    # How long sending a mail may take in all.
    MAIL_TIMEOUT_SECONDS: float = 5.0
    # Whether to send nothing at all; Flask-Mail's own default depends on TESTING.
    MAIL_SUPPRESS_SEND: bool = False
    # The subject of the mail with a code to reset a password.
    RESET_SUBJECT: str = "Your password reset code"
    # How long such a code lives.
    RESET_CODE_SECONDS: int = 1800

    # The largest page; a larger pageSize or count is served as this.
    PAGE_SIZE_MAX: int = 100
    # How old the Total of an unfiltered list, and the count of players online, may be.
    TOTAL_CACHE_SECONDS: float = 1.0
    # Slots of an inventory.
    INVENTORY_SIZE: int = 35
    # Slots of a bank.
    BANK_SIZE: int = 100
    # Slots for known spells.
    SPELLS_SIZE: int = 35
    # How many of one item a slot holds.
    STACK_LIMIT: int = 1_000_000
    # How long a player stays online after LastSeen; 0 trusts the Online flag alone.
    ONLINE_TTL_SECONDS: int = 300

    # The least important log lines to write: DEBUG, INFO, WARNING, ERROR.
    LOG_LEVEL: str = "INFO"
    # How log lines look: text for people, json for machines.
    LOG_FORMAT: str = "text"

    # The title of the API's documentation.
    API_TITLE: str = "Quartermaster"
    # The version of OpenAPI that the documentation is written in.
    OPENAPI_VERSION: str = "3.0.3"

    # Whether Flask answers OPTIONS itself, as CORS preflights need; otherwise it is a 405.
    PROVIDE_AUTOMATIC_OPTIONS: bool = False
