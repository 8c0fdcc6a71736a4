"""Every setting, with its default. QM_<NAME> in the environment overrides any of them."""

from __future__ import annotations


class Settings:
    """The settings that all environments share."""

    # The environment: development, production or testing.
    ENV: str = "development"
    # Signs access tokens: 32 or more characters, no comma. Development generates one in DATA_DIR.
    SECRET_KEY: str | None = None
    # Former SECRET_KEYs, comma-separated, whose tokens are still accepted during a key rotation.
    SECRET_KEY_FALLBACKS: list[str] = []

    # The connection string of MongoDB. Without one, development starts an embedded server.
    MONGODB_URI: str | None = None
    # The name of the database, unless the URI holds one.
    MONGODB_DATABASE: str = "quartermaster"
    # pymongo's server selection timeout; then the request is answered with 503.
    MONGODB_SELECTION_SECONDS: float = 3.0
    # The time budget of a request for all its database operations and retries; then 503.
    MONGODB_OPERATION_SECONDS: float = 5.0
    # The size of the connection pool of each worker.
    MONGODB_POOL_SIZE: int = 32
    # The mongod executable of the embedded server; by default the wheel's, else the first in PATH.
    MONGOD: str | None = None
    # The WiredTiger cache of the embedded server.
    EMBEDDED_CACHE_GB: float = 1.0
    # Who runs a command, for history; by default the system user. deploy/qm sets it.
    OPERATOR: str | None = None
    # The folder for the embedded server's data, and in development the secret and outgoing mail.
    DATA_DIR: str = "var"

    # The address to listen on. In production, other than loopback only behind a proxy.
    HOST: str = "127.0.0.1"
    # The port to listen on.
    PORT: int = 8000
    # A Unix socket to listen on instead of a port; the program's group may connect to it.
    SOCKET: str | None = None
    # The number of worker processes.
    WORKERS: int = 2
    # The folder in which workers share their metrics, if another program than serve starts them.
    # The files of workers that have ended stay until the next start.
    METRICS_DIR: str | None = None
    # The number of requests of a worker that use the database concurrently.
    THREADS: int = 8
    # A worker that does not respond for this long is killed and replaced.
    WORKER_TIMEOUT_SECONDS: int = 30
    # How long a stopping worker may take to finish running requests.
    GRACEFUL_TIMEOUT_SECONDS: int = 20
    # The maximum number of open connections of a worker; further ones wait. It needs as many open
    # files, and some 200 for everything else.
    CONNECTIONS: int = 1000
    # The keep-alive timeout: how long a connection may be idle between two requests.
    KEEPALIVE_SECONDS: int = 65
    # The number of requests after which a worker is replaced, to limit memory leaks; 0: never.
    MAX_REQUESTS: int = 100_000
    # The maximum of a random addition to that, so that workers are not replaced at the same time.
    MAX_REQUESTS_JITTER: int = 10_000
    # The largest request body in bytes.
    MAX_CONTENT_LENGTH: int = 1024 * 1024
    # The largest body of a batch in bytes; it is read as a stream.
    BATCH_CONTENT_LENGTH: int = 32 * 1024 * 1024
    # Whether to accept forms, field names in any case, "1" and "true", and ignore unknown fields.
    LENIENT_BODIES: bool = False
    # Fields that a game saves often, comma-separated: a save of only these adds no history entry.
    UNRECORDED_FIELDS: list[str] = ["MapId", "MapName", "X", "Y", "Dir"]
    # The origins whose pages may use the API (CORS), comma-separated, such as https://example.com.
    CORS_ORIGINS: list[str] = []
    # The clients to be compatible with: intersect, or empty for none (see docs/compatibility.rst).
    COMPATIBILITY: str = ""

    # The lifetime of an access token.
    ACCESS_TOKEN_SECONDS: int = 300
    # The lifetime of a refresh token.
    REFRESH_TOKEN_SECONDS: int = 7 * 24 * 3600
    # The maximum number of refresh tokens of an account; beyond it, the oldest are revoked.
    REFRESH_TOKENS_PER_ACCOUNT: int = 2000
    # How long a worker caches a caller's roles and revoked tokens; 0 disables the cache.
    AUTH_CACHE_SECONDS: float = 5.0
    # How long a worker caches a correct password, to save the hashing; 0 disables the cache.
    PASSWORD_CACHE_SECONDS: float = 60.0
    # The number of passwords that a worker hashes concurrently.
    HASH_PLACES: int = 2
    # The length of the queue for hashing in each worker; further requests are answered with 503.
    HASH_LINE: int = 32
    # argon2id: the time cost, in passes over the memory.
    ARGON2_TIME_COST: int = 2
    # argon2id: the memory cost in KiB.
    ARGON2_MEMORY_KIB: int = 19456
    # argon2id: the parallelism, in lanes.
    ARGON2_PARALLELISM: int = 1

    # The number of reverse proxies whose X-Forwarded-For is trusted; 0: none.
    TRUSTED_PROXIES: int = 0
    # The number of wrong passwords or reset codes of an account before it is rate-limited.
    ACCOUNT_FAILURES: int = 10
    # The number of failed sign-ins from a client address before it is rate-limited.
    ADDRESS_FAILURES: int = 100
    # The number of wrong passwords, codes or names from a caller before it is rate-limited.
    CALLER_FAILURES: int = 1000
    # The role whose limits apply to accounts that use the API by their Power; empty: no limits.
    POWER_ROLE: str = ""
    # The maximum number of requests of a caller per minute; 0: unlimited.
    REQUESTS_PER_MINUTE: int = 0
    # The window in which failures are counted, starting with the first one.
    FAILURE_WINDOW_SECONDS: int = 600

    # The SMTP server. Without one, development writes mails to DATA_DIR/outbox.
    MAIL_SERVER: str | None = None
    # The port of the SMTP server.
    MAIL_PORT: int = 25
    # Whether to use STARTTLS.
    MAIL_USE_TLS: bool = False
    # Whether to use implicit TLS.
    MAIL_USE_SSL: bool = False
    # A CA bundle to trust instead of the system's.
    MAIL_CA_FILE: str | None = None
    # The username at the SMTP server, if it requires one.
    MAIL_USERNAME: str | None = None
    # The password of that username.
    MAIL_PASSWORD: str | None = None
    # The From address of mails.
    MAIL_DEFAULT_SENDER: str = "Quartermaster <noreply@localhost>"
    # The number of mails that a worker sends concurrently.
    MAIL_PLACES: int = 2
    # The length of the queue for mail in each worker; further requests are answered with 503.
    MAIL_LINE: int = 8
    # The timeout of each answer of the mail server.
    MAIL_TIMEOUT_SECONDS: float = 5.0
    # Whether to suppress mail; set here because Flask-Mail's default depends on TESTING.
    MAIL_SUPPRESS_SEND: bool = False
    # The subject of the mail with a password reset code.
    RESET_SUBJECT: str = "Your password reset code"
    # The lifetime of a password reset code.
    RESET_CODE_SECONDS: int = 1800
    # The maximum number of mails with a reset code to an account per hour; 0: unlimited.
    RESET_MAILS_PER_HOUR: int = 5
    # The maximum number of such mails per day; 0: unlimited.
    RESET_MAILS_PER_DAY: int = 20
    # The subject of the mail that invites a colleague.
    INVITATION_SUBJECT: str = "Your account for the console"
    # The lifetime of an invitation.
    INVITATION_SECONDS: int = 7 * 24 * 3600
    # The address of this service in mails, such as https://qm.example.com. Production needs it for
    # invitations; elsewhere it is by default that of the request that sends the mail.
    PUBLIC_URL: str = ""

    # The maximum page size; a larger pageSize or count is reduced to it.
    PAGE_SIZE_MAX: int = 100
    # How long the Total of an unfiltered list and the count of online players are cached.
    TOTAL_CACHE_SECONDS: float = 1.0
    # The number of slots of an inventory.
    INVENTORY_SIZE: int = 35
    # The number of slots of a bank.
    BANK_SIZE: int = 100
    # The number of slots for known spells.
    SPELLS_SIZE: int = 35
    # The stack limit: how many of one item a slot holds.
    STACK_LIMIT: int = 1_000_000
    # How long a worker caches the stack limits of items; 0 disables the cache.
    CATALOGUE_CACHE_SECONDS: float = 3.0
    # Whether to refuse items and spells that are not in the catalogue; otherwise the response has a
    # Warning header.
    STRICT_CATALOGUE: bool = False
    # The name of the game, as clients show it.
    GAME_NAME: str = "Quartermaster"
    # The port of the game server, as clients show it.
    GAME_PORT: int = 5400
    # Whether clients are told that only staff may play.
    GAME_ADMIN_ONLY: bool = False
    # The minimum length of a new character name; imported names may have any length.
    CHARACTER_NAME_SHORTEST: int = 2
    # The maximum length of a new character name, at most 255.
    CHARACTER_NAME_LONGEST: int = 40
    # The maximum number of characters of an account, as shown to clients.
    MAX_CHARACTERS: int = 3
    # The maximum of a stat, as shown to clients.
    MAX_STAT: int = 255
    # The maximum level of a character, as shown to clients.
    MAX_LEVEL: int = 100
    # How long after LastSeen a player counts as online; 0: the Online flag alone decides.
    ONLINE_TTL_SECONDS: int = 300

    # How many days a history entry is kept; 0: for ever.
    HISTORY_DAYS: int = 400
    # How many days an event that the game reports is kept, at most as long as history; 0: as long.
    GAME_EVENT_DAYS: int = 30
    # What always needs the approval of a second person, comma-separated: batches>500 (rows),
    # erasures, roles.
    APPROVAL: list[str] = []
    # Whether a change without a reason in the header X-Reason is refused with 400.
    REASON_REQUIRED: bool = False

    # The minimum level of log lines: DEBUG, INFO, WARNING or ERROR.
    LOG_LEVEL: str = "INFO"
    # The format of log lines: text or json.
    LOG_FORMAT: str = "text"

    # Whether to serve the console, the pages for support staff, below /console.
    CONSOLE: bool = True
    # The lifetime of a console session.
    CONSOLE_SESSION_SECONDS: int = 12 * 3600
    # The name of this environment in the console, to distinguish it from others; by default ENV.
    ENVIRONMENT_NAME: str = ""
    # Its colour: green, blue, violet, amber, red or grey; by default green, and red in production.
    ENVIRONMENT_COLOUR: str = ""

    # The OpenID Connect provider of the company, such as https://login.example.com/realms/staff.
    # Staff can then sign in at the console with their company account (see docs/sign-in.rst).
    OPENID_ISSUER: str | None = None
    # The id of this service as a client of the provider.
    OPENID_CLIENT_ID: str | None = None
    # The secret of that client.
    OPENID_CLIENT_SECRET: str | None = None
    # The claim of the provider that lists the groups of a person.
    OPENID_GROUPS_CLAIM: str = "groups"
    # The role for members of a group, as group=role, comma-separated.
    OPENID_GROUP_ROLES: list[str] = []
    # Whether the first sign-in with a company account creates an account here.
    OPENID_CREATES_ACCOUNTS: bool = False
    # How long the service waits for each answer of the provider.
    OPENID_TIMEOUT_SECONDS: float = 10.0
    # Whether staff may sign in with a password; otherwise only with their company account.
    STAFF_PASSWORDS: bool = True

    # The title of the OpenAPI document.
    API_TITLE: str = "Quartermaster"
    # The version of the OpenAPI specification that the document follows.
    OPENAPI_VERSION: str = "3.0.3"

    # Whether Flask answers OPTIONS itself, as it does with CORS_ORIGINS; otherwise it is a 405.
    PROVIDE_AUTOMATIC_OPTIONS: bool = False


class Development(Settings):
    """Runs without configuration: with an embedded MongoDB and a generated secret."""


class Production(Settings):
    """Refuses to start without a SECRET_KEY and a MONGODB_URI."""

    ENV: str = "production"
    LOG_FORMAT: str = "json"


class Testing(Settings):
    """Cheap hashes, no caches, and no database unless a test sets one."""

    ENV: str = "testing"
    TESTING: bool = True
    # Answer unexpected errors as production does; Flask would raise them in the test client.
    PROPAGATE_EXCEPTIONS: bool = False
    SECRET_KEY: str | None = "a secret that only the tests use: 32+ long"  # noqa: S105 (not a real secret)
    MONGODB_URI: str | None = "mongomock://localhost"
    MONGODB_SELECTION_SECONDS: float = 2.0
    # Tests must not fail because the machine is busy.
    MONGODB_OPERATION_SECONDS: float = 60.0
    AUTH_CACHE_SECONDS: float = 0.0
    TOTAL_CACHE_SECONDS: float = 0.0
    PASSWORD_CACHE_SECONDS: float = 0.0
    ARGON2_TIME_COST: int = 1
    ARGON2_MEMORY_KIB: int = 64
