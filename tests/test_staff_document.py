"""docs/staff.rst names the permissions of every endpoint, page and form."""

from tests.permission_tables import PAGE, made


def test_the_tables_are_those_of_the_views():
    text = PAGE.read_text()
    assert text == made(text), "run make contract"
