"""Compiles the function that builds a path once, for all applications that the tests make.

It depends on the path alone, and to compile those of all routes is most of making an application.
"""

from werkzeug.routing import Rule

_compile = Rule._compile_builder
_compiled = {}


def _compile_once(rule, append_unknown=True):
    if rule.defaults:
        return _compile(rule, append_unknown)
    key = rule.rule, tuple(rule._trace), append_unknown
    if key not in _compiled:
        _compiled[key] = _compile(rule, append_unknown)
    return _compiled[key]


Rule._compile_builder = _compile_once
