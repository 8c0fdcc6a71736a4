"""How gunicorn runs the service: ``gunicorn -c python:config.gunicorn wsgi:app``."""

# Names of gunicorn's own settings, such as config, must not be imported here.
from config import load as load_settings

settings = load_settings()

host = f"[{settings.HOST}]" if ":" in settings.HOST else settings.HOST
bind = f"unix:{settings.SOCKET}" if settings.SOCKET else f"{host}:{settings.PORT}"
# The socket is for our own group, in which the proxy is; by default it would be for everybody.
umask = 0o007
# All workers accept from one queue. With a queue each (reuse_port), a worker that ends would take
# the connections in its own queue with it.
reuse_port = False
workers = settings.WORKERS
worker_class = "app.server.worker.Worker"
# Two more than may be at the database, so that what needs none of it never waits for it; and more
# for all who hash passwords, send mails or wait for that, so that nobody else waits for them.
threads = settings.THREADS + 2
threads += settings.HASH_PLACES + settings.HASH_LINE + settings.MAIL_PLACES + settings.MAIL_LINE
worker_connections = settings.CONNECTIONS
timeout = settings.WORKER_TIMEOUT_SECONDS
graceful_timeout = settings.GRACEFUL_TIMEOUT_SECONDS
# The worker reads these two in its own way: see app/server/worker.py.
max_requests = settings.MAX_REQUESTS
max_requests_jitter = settings.MAX_REQUESTS_JITTER
keepalive = settings.KEEPALIVE_SECONDS
# Two long names of another script, percent-encoded, fit into one path.
limit_request_line = 8190
# No client may set SCRIPT_NAME or PATH_INFO by a header.
forwarder_headers = ""
# Whether a proxy was reached by HTTPS is for app/http/address.py to say, by X-Forwarded-Proto
# alone. gunicorn would refuse requests where that and the headers of older proxies differ.
secure_scheme_headers: dict[str, str] = {}
# The application writes one line per request itself, with the request id in it.
accesslog = None
logger_class = "app.server.logger.GunicornLogger"
# The workers count together what /metrics shows.
on_starting = "app.server.metrics_folder.on_starting"
pre_fork = "app.server.metrics_folder.pre_fork"
child_exit = "app.server.metrics_folder.child_exit"
on_exit = "app.server.metrics_folder.on_exit"
# Signals do what its control socket would, without a file in somebody's home.
control_socket_disable = True
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "text": {"()": "app.http.logs.TextFormatter"},
        "json": {"()": "app.http.logs.JsonFormatter"},
    },
    "root": {"level": settings.LOG_LEVEL, "handlers": []},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": settings.LOG_FORMAT}},
    "loggers": {
        "gunicorn.error": {
            # On a developer's terminal its account of itself would drown the banner. At DEBUG it
            # names the path of every request, with the token that may stand in it.
            "level": settings.LOG_LEVEL.replace("DEBUG", "INFO")
            if settings.ENV == "production"
            else "WARNING",
            "handlers": ["stderr"],
            "propagate": False,
        }
    },
}
