"""What the code overrides in other packages, and which of their private names it uses.

An upgrade that changes one of them fails here by its name. Then look at the module of ours that is
named beside it, mend it, and change the line here.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from importlib.metadata import version
from pathlib import Path

import flask
import gunicorn.http.body
import gunicorn.http.message
import pytest
from flask.ctx import RequestContext
from gunicorn.config import Config
from gunicorn.http.parser import RequestParser
from gunicorn.http.unreader import IterUnreader

import app
from app.http.json import json_response

DISTRIBUTIONS = {"flask_mail": "Flask-Mail", "flask_smorest": "flask-smorest"}
DISTRIBUTIONS["prometheus_client"] = "prometheus-client"
STANDARD = {"logging", "smtplib"}
PACKAGES = {
    "flask",
    "flask_mail",
    "flask_smorest",
    "gunicorn",
    "logging",
    "marshmallow",
    "prometheus_client",
    "pymongo",
    "webargs",
    "werkzeug",
}

# Methods of other packages' classes that our classes override, with their parameters.
OVERRIDDEN = {
    "app.game.server.schemas": {
        "marshmallow.schema.Schema.load": "self, data, many, partial, unknown",
    },
    "app.http.api": {
        "flask_smorest.Api.__init__": "self, app, spec_kwargs, config_prefix",
        "flask_smorest.arguments.ArgumentsMixin.arguments": (
            "self, schema, location, content_type, required, description, example, examples, kwargs"
        ),
        "flask_smorest.blueprint.Blueprint.__init__": "self, args, kwargs",
        "flask_smorest.blueprint.Blueprint.add_url_rule": (
            "self, rule, endpoint, view_func, provide_automatic_options, parameters, tags, options"
        ),
        "flask_smorest.blueprint.Blueprint.register_views_in_doc": (
            "self, api, app, spec, name, parameters"
        ),
        "flask_smorest.error_handler.ErrorHandlerMixin._register_error_handlers": "self",
    },
    "app.http.application": {
        "flask.app.Flask.create_url_adapter": "self, request",
        "flask.app.Flask.do_teardown_appcontext": "self, exc",
        "flask.app.Flask.do_teardown_request": "self, exc",
        "flask.app.Flask.finalize_request": "self, rv, from_error_handler",
        "flask.app.Flask.full_dispatch_request": "self",
        "flask.app.Flask.log_exception": "self, exc_info",
        "flask.app.Flask.wsgi_app": "self, environ, start_response",
        "flask.sessions.NullSession.__delitem__": "self, args, kwargs",
        "flask.sessions.NullSession.__setitem__": "self, args, kwargs",
        "flask.sessions.NullSession.clear": "self, args, kwargs",
        "flask.sessions.NullSession.pop": "self, args, kwargs",
        "flask.sessions.NullSession.popitem": "self, args, kwargs",
        "flask.sessions.NullSession.setdefault": "self, args, kwargs",
        "flask.sessions.NullSession.update": "self, args, kwargs",
        "flask.sessions.SessionInterface.open_session": "self, app, request",
        "werkzeug.routing.map.MapAdapter.__init__": (
            "self, map, server_name, script_name, subdomain, url_scheme, path_info, "
            "default_method, query_args"
        ),
        "werkzeug.routing.map.MapAdapter.build": (
            "self, endpoint, values, method, force_external, append_unknown, url_scheme"
        ),
        "werkzeug.routing.map.MapAdapter.get_host": "self, domain_part",
        "werkzeug.routing.map.MapAdapter.match": (
            "self, path_info, method, return_rule, query_args, websocket"
        ),
    },
    "app.http.json": {
        "flask.json.provider.JSONProvider.dumps": "self, obj, kwargs",
        "flask.json.provider.JSONProvider.loads": "self, s, kwargs",
        "flask.json.provider.JSONProvider.response": "self, args, kwargs",
        "werkzeug.datastructures.headers.Headers.__init__": "self, defaults",
        "werkzeug.wrappers.response.Response.__call__": "self, environ, start_response",
        "werkzeug.wrappers.response.Response.__init__": (
            "self, response, status, headers, mimetype, content_type, direct_passthrough"
        ),
    },
    "app.http.logs": {"logging.Formatter.format": "self, record"},
    "app.http.parser": {
        "webargs.core.Parser.load_json": "self, req, schema",
        "webargs.core.Parser.parse": (
            "self, argmap, req, location, unknown, validate, error_status_code, error_headers"
        ),
        "webargs.flaskparser.FlaskParser.handle_error": (
            "self, error, req, schema, error_status_code, error_headers"
        ),
        "webargs.flaskparser.FlaskParser.load_form": "self, req, schema",
        "webargs.flaskparser.FlaskParser.load_querystring": "self, req, schema",
    },
    "app.http.path_converters": {
        "werkzeug.routing.converters.BaseConverter.to_python": "self, value",
        "werkzeug.routing.converters.BaseConverter.to_url": "self, value",
    },
    "app.http.tracing": {
        "logging.LogRecord.__init__": (
            "self, name, level, pathname, lineno, msg, args, exc_info, func, sinfo, kwargs"
        ),
    },
    "app.metrics": {
        "prometheus_client.registry.Collector.__init__": "self, args, kwargs",
        "prometheus_client.registry.Collector.collect": "self",
    },
    "app.server.logger": {
        "gunicorn.glogging.Logger.exception": "self, msg, args, kwargs",
        "gunicorn.glogging.Logger.warning": "self, msg, args, kwargs",
    },
    "app.server.loop": {
        "gunicorn.workers.gthread.ThreadWorker.__init__": "self, args, kwargs",
        "gunicorn.workers.gthread.ThreadWorker.accept": "self, listener",
        "gunicorn.workers.gthread.ThreadWorker.finish_request": "self, conn, fs",
        "gunicorn.workers.gthread.ThreadWorker.murder_keepalived": "self, force",
        "gunicorn.workers.gthread.ThreadWorker.run": "self",
        "gunicorn.workers.gthread.ThreadWorker.set_accept_enabled": "self, enabled",
    },
    "app.server.program": {
        "gunicorn.app.base.Application.load_config": "self",
        "gunicorn.app.base.BaseApplication.__init__": "self, usage, prog",
        "gunicorn.app.base.BaseApplication.init": "self, parser, opts, args",
        "gunicorn.app.base.BaseApplication.load": "self",
    },
    "app.server.request_reader": {
        "gunicorn.http.errors.InvalidChunkSize.__str__": "self",
        "gunicorn.http.parser.Parser.__init__": "self, cfg, source, source_addr",
        "gunicorn.http.parser.Parser.__next__": "self",
        "gunicorn.http.parser.Parser.finish_body": "self, deadline, max_bytes",
    },
    "app.server.response": {
        "gunicorn.http.wsgi.Response._emit_body": "self, data",
        "gunicorn.http.wsgi.Response.can_sendfile": "self",
        "gunicorn.http.wsgi.Response.close": "self",
        "gunicorn.http.wsgi.Response.send_headers": "self",
    },
    "app.server.worker": {
        "gunicorn.workers.gthread.ThreadWorker.__init__": "self, args, kwargs",
        "gunicorn.workers.gthread.ThreadWorker.enqueue_req": "self, conn",
        "gunicorn.workers.gthread.ThreadWorker.handle": "self, conn",
        "gunicorn.workers.gthread.ThreadWorker.handle_exit": "self, sig, frame",
        "gunicorn.workers.gthread.ThreadWorker.handle_quit": "self, sig, frame",
        "gunicorn.workers.gthread.ThreadWorker.handle_request": "self, req, conn",
        "gunicorn.workers.gthread.ThreadWorker.init_process": "self",
        "gunicorn.workers.gthread.ThreadWorker.murder_keepalived": "self, force",
    },
    "app.users.mail": {
        "flask_mail.Connection.__exit__": "self, exc_type, exc_value, tb",
        "flask_mail.Connection.__init__": "self, mail",
        "flask_mail.Connection.configure_host": "self",
    },
}
# Functions and methods that are called or replaced, and are private or undocumented.
CALLED = {
    "app.http.application": {
        "werkzeug.local.LocalProxy._get_current_object": None,
        "flask.app.Flask.dispatch_request": "self",
        "flask.app.Flask.handle_user_exception": "self, e",
        "flask.app.Flask.make_response": "self, rv",
        "flask.app.Flask.ensure_sync": "self, func",
        "blinker.base.Signal.send": "self, sender, _async_wrapper, kwargs",
    },
    "app.http.json": {
        "flask.json.provider.JSONProvider._prepare_response_obj": "self, args, kwargs",
        "werkzeug.datastructures.headers.Headers.to_wsgi_list": "self",
    },
    "app.http.logs": {
        "logging._srcfile": None,
        "logging.logMultiprocessing": None,
        "logging.logProcesses": None,
        "logging.logThreads": None,
    },
    "app.metrics": {
        "prometheus_client.multiprocess.MultiProcessCollector": "registry, path",
        "prometheus_client.values.MultiProcessValue": "process_identifier",
        "prometheus_client.values.MutexValue": None,
        "prometheus_client.values.ValueClass": None,
    },
    "app.server.loop": {
        "gunicorn.sock.ssl_context": "conf",
        "gunicorn.workers.gthread.ThreadWorker.wait_for_and_dispatch_events": "self, timeout",
    },
    "app.server.metrics_folder": {
        "prometheus_client.multiprocess.mark_process_dead": "pid, path",
    },
    "app.server.patches": {
        "gunicorn.http.wsgi.Response": "req, sock, cfg",
        "gunicorn.util.write_error": "sock, status_int, reason, mesg",
    },
    "app.server.program": {
        "gunicorn.app.base.Application.load_config_from_file": "self, filename",
        "gunicorn.util.import_app": "module",
    },
    "app.server.request_reader": {
        "gunicorn.http.body.DEFAULT_MAX_CHUNK_SIZE_LINE": None,
        "gunicorn.http.message.Message.force_close": "self",
        "gunicorn.http.parser.RequestParser.mesg_class": None,
        "gunicorn.http.unreader.Unreader.read": "self, size, read_ahead",
        "gunicorn.http.unreader.Unreader.unread": "self, data",
    },
    "app.server.response": {"gunicorn.http.wsgi.Response.default_headers": "self"},
    "app.server.worker": {
        "gunicorn.workers.gthread.PollableMethodQueue.defer": "self, callback, args",
        "gunicorn.workers.gthread.ThreadWorker._keepalive_after": "self, conn, keepalive",
    },
}
# Attributes that the __init__ of other packages' classes sets.
ATTRIBUTES = {
    "app.http.application": {
        "blinker.base.Signal": ["receivers"],
        "flask.ctx.RequestContext": ["_after_request_functions", "_session"],
        "flask.sansio.app.App": ["subdomain_matching", "teardown_appcontext_funcs"],
        "flask.sansio.scaffold.Scaffold": [
            "after_request_funcs",
            "before_request_funcs",
            "teardown_request_funcs",
            "url_value_preprocessors",
        ],
    },
    "app.http.json": {
        "werkzeug.datastructures.headers.Headers": ["_list"],
        "werkzeug.wrappers.response.Response": ["_on_close", "direct_passthrough"],
    },
    "app.http.path_converters": {
        "werkzeug.routing.converters.BaseConverter": ["part_isolating", "regex"],
    },
    "app.server.loop": {
        "gunicorn.workers.base.Worker": ["alive", "cfg", "log", "nr", "max_requests"],
        "gunicorn.workers.gthread.ThreadWorker": [
            "keepalived_conns",
            "max_keepalived",
            "method_queue",
            "nr_conns",
            "poller",
            "worker_connections",
        ],
    },
    "app.server.request_reader": {
        "gunicorn.http.body.Body": ["failed", "reader"],
        "gunicorn.http.body.LengthReader": ["length"],
        "gunicorn.http.message.Message": ["must_close", "_expected_100_continue"],
        "gunicorn.http.parser.Parser": ["cfg", "mesg", "req_count", "source_addr", "unreader"],
    },
    "app.server.response": {
        "gunicorn.http.wsgi.Response": ["chunked", "headers", "headers_sent", "sock"],
    },
    "app.users.mail": {"flask_mail.Connection": ["mail"]},
}
# Names that no class declares, each with the test that would notice.
ELSEWHERE = {
    # flask-smorest's notes on a view: tests/api/test_openapi.py.
    "app.http.api": {"_apidoc"},
    # marshmallow's documented method: tests/domain/test_lists.py.
    "app.http.lists": {"_deserialize"},
    # The same: tests/api/test_history.py.
    "app.http.fields": {"_deserialize"},
    # The same: tests/api/test_moderation.py.
    "app.moderation.schemas": {"_deserialize"},
    # smtplib's name of the server, whose certificate is checked: tests/system/test_mail.py.
    "app.users.mail": {"_host"},
}
# Documented ways to extend marshmallow and pymongo, and what is set on every class.
EXTENSION_POINTS = {"Meta", "default_error_messages", "_deserialize", "__init__"}
EXTENSION_POINTS |= {"started", "succeeded", "failed"}
CLASS_INTERNALS = {
    "__subclasshook__",
    "_abc_impl",
    "_declared_fields",
    "_hooks",
    "_is_protocol",
    "opts",
}


MISSING = object()


def rows(table):
    return [
        (module, name, expected) for module in table for name, expected in table[module].items()
    ]


def found(name):
    """Return the object of a dotted name, or MISSING."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:end]))
        except ImportError:
            continue
        for part in parts[end:]:
            if not hasattr(value, part):
                return MISSING
            value = inspect.getattr_static(value, part) if part[:1] == "_" else getattr(value, part)
        return value
    return MISSING


def package_of(name):
    package = name.split(".")[0]
    if package in STANDARD:
        return f"Python's {package}"
    return f"{package} {version(DISTRIBUTIONS.get(package, package))}"


def parameters_of(function):
    return ", ".join(inspect.signature(function).parameters)


@pytest.mark.parametrize(("module", "name", "parameters"), rows(OVERRIDDEN) + rows(CALLED))
def test_a_name_that_is_relied_on_is_there_with_its_parameters(module, name, parameters):
    value = found(name)
    where = f"{module} relies on {name}, and {package_of(name)}"
    if value is MISSING:
        pytest.fail(f"{where} does not have it")
    if parameters is not None and parameters_of(value) != parameters:
        pytest.fail(f"{where} has it with ({parameters_of(value)}), not ({parameters})")


@pytest.mark.parametrize(
    ("module", "name", "attribute"),
    [(module, name, one) for module, name, some in rows(ATTRIBUTES) for one in some],
)
def test_an_attribute_that_is_relied_on_is_set(module, name, attribute):
    kind = found(name)
    where = f"{module} relies on the attribute {attribute} of {name}"
    assert kind is not MISSING, f"{where}, and {package_of(name)} does not have the class"
    named = [set(vars(base)) for base in kind.__mro__]
    named += [
        {*code.co_names, *code.co_varnames}
        for base in kind.__mro__
        if (code := getattr(base.__init__, "__code__", None))
    ]
    assert attribute in set().union(*named), f"{where}, and {package_of(name)} does not set it"


def test_a_request_context_has_what_the_short_way_looks_at():
    application = flask.Flask(__name__)
    context = RequestContext(application, {"wsgi.url_scheme": "http", "REQUEST_METHOD": "GET"})
    assert context._after_request_functions == []
    assert context._session is None


def test_a_ready_response_is_one_of_werkzeugs():
    response = json_response({"a": 1}, 404, {"X-More": "1"})
    assert (response.status, response.status_code) == ("404 Not Found", 404)
    assert (response.json, response.get_data()) == ({"a": 1}, b'{"a":1}')
    assert response.headers["X-More"] == "1"
    response.call_on_close(lambda: None)
    response.close()


def test_gunicorn_parses_from_a_reader_that_is_put_in_the_place_of_its_own():
    stream = b"POST / HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\nok"
    parser = RequestParser(Config(), iter([stream]), ("192.0.2.1", 5000))
    assert isinstance(parser.unreader, IterUnreader)
    request = next(parser)
    assert isinstance(request, gunicorn.http.message.Request)
    assert request._expected_100_continue is True
    assert isinstance(request.body.reader, gunicorn.http.body.LengthReader)
    assert request.body.reader.length == 2
    assert (request.body.failed, request.must_close) == (False, False)


def our_modules():
    for info in pkgutil.walk_packages(app.__path__, "app."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def overridden_by(module):
    """Yield the methods of other packages' classes that a module's classes override."""
    for kind in vars(module).values():
        if not inspect.isclass(kind) or kind.__module__ != module.__name__:
            continue
        for name, value in vars(kind).items():
            is_method = callable(value) and not inspect.isclass(value)
            if name in CLASS_INTERNALS or not is_method or hasattr(value, "__wrapped__"):
                continue
            base = next((base for base in kind.__mro__[1:] if name in vars(base)), object)
            package = base.__module__.split(".")[0]
            is_extension = name in EXTENSION_POINTS and package in {"marshmallow", "pymongo"}
            if package in PACKAGES and callable(vars(base)[name]) and not is_extension:
                yield f"{base.__module__}.{base.__qualname__}.{name}"


@pytest.mark.parametrize("module", list(our_modules()), ids=lambda module: module.__name__)
def test_every_overridden_method_is_listed(module):
    unlisted = set(overridden_by(module)) - OVERRIDDEN.get(module.__name__, {}).keys()
    assert unlisted == set()


def foreign_private_names(module):
    """Yield private names that a module uses of anything but its own classes."""
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and node.attr[1] != "_":
            is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
            # namedtuple's _replace is public in spite of its name.
            if not is_own and node.attr != "_replace":
                yield node.attr


@pytest.mark.parametrize("module", list(our_modules()), ids=lambda module: module.__name__)
def test_every_private_name_of_others_is_listed(module):
    used = set(foreign_private_names(module))
    listed = {
        name.rsplit(".", 1)[1]
        for table in (OVERRIDDEN, CALLED)
        for name in table.get(module.__name__, {})
    }
    listed |= set().union(*ATTRIBUTES.get(module.__name__, {}).values())
    assert used - listed - ELSEWHERE.get(module.__name__, set()) == set()
