"""How gunicorn runs the service: ``gunicorn -c python:config.gunicorn wsgi:app``."""

from typing import Any

# Names of gunicorn's own settings, such as config, must not be imported here.
from config import load as load_settings

settings = load_settings()

host = f"[{settings.HOST}]" if ":" in settings.HOST else settings.HOST
bind = f"unix:{settings.SOCKET}" if settings.SOCKET else f"{host}:{settings.PORT}"
# Only our own group, which the proxy belongs to, may use the Unix socket.
umask = 0o007
# All workers accept from one queue. With one queue per worker (SO_REUSEPORT), a worker that ends
# would lose the connections in its queue.
reuse_port = False
workers = settings.WORKERS
worker_class = "gthread"
# Two more than the database places, so that a request without database access never waits for one;
# plus one for each request that hashes a password, sends a mail, or waits for either.
threads = settings.THREADS + 2
threads += settings.HASH_PLACES + settings.HASH_LINE + settings.MAIL_PLACES + settings.MAIL_LINE
worker_connections = settings.CONNECTIONS
timeout = settings.WORKER_TIMEOUT_SECONDS
graceful_timeout = settings.GRACEFUL_TIMEOUT_SECONDS
max_requests = settings.MAX_REQUESTS
max_requests_jitter = settings.MAX_REQUESTS_JITTER
keepalive = settings.KEEPALIVE_SECONDS
# Long enough for a path with two long percent-encoded names.
limit_request_line = 8190
# Requests over the limit get gunicorn's own error page. nginx limits the total size of headers.
limit_request_fields = 1000
# Clients must not set SCRIPT_NAME or PATH_INFO through headers.
forwarder_headers = ""
# app/http/address.py reads X-Forwarded-Proto. gunicorn would refuse requests in which it differs
# from the headers of older proxies.
secure_scheme_headers: dict[str, str] = {}
# The application writes the access log itself, with the request id.
accesslog = None
logger_class = "app.server.gunicorn_server.GunicornLogger"
on_starting = "app.server.gunicorn_server.on_starting"
pre_fork = "app.server.gunicorn_server.pre_fork"
post_worker_init = "app.server.gunicorn_server.post_worker_init"
child_exit = "app.server.gunicorn_server.child_exit"
on_exit = "app.server.gunicorn_server.on_exit"
# Disabled: signals do the same, and it would create a file in the home directory.
control_socket_disable = True
logconfig_dict: dict[str, Any] = {
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
            # In development its messages would hide the banner. At DEBUG it logs the path of every
            # request, which may contain a token.
            "level": settings.LOG_LEVEL.replace("DEBUG", "INFO")
            if settings.ENV == "production"
            else "WARNING",
            "handlers": ["stderr"],
            "propagate": False,
        }
    },
}
