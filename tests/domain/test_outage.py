from logging import makeLogRecord
from types import SimpleNamespace

from pymongo.errors import AutoReconnect, DuplicateKeyError

from app.storage import monitoring
from app.storage.monitoring import Outage


def test_an_outage_is_logged_once_a_minute_and_its_end_once(monkeypatch, caplog):
    clock = [100.0]
    monkeypatch.setattr(monitoring, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    outage = Outage()
    outage.end()
    for clock[0] in (100.0, 101.0, 159.0, 160.0, 219.0):
        assert not outage.filter(makeLogRecord({"args": ("a", AutoReconnect("db1:1: away"))}))
    outage.end()
    outage.end()
    again = "MongoDB answers again, after 119 s."
    assert caplog.messages == ["MongoDB does not answer: db1:1: away."] * 2 + [again]
    for args in ((), None, ("a", 1), (DuplicateKeyError("twice"),), {"a": 1}):
        assert outage.filter(makeLogRecord({"args": args}))
