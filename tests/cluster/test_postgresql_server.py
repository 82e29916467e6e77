"""The server that tests of studies use: it keeps its data over a restart."""

from sqlalchemy import create_engine, text


def test_what_is_written_is_there_after_a_restart(postgresql):
    engine = create_engine(postgresql.url)
    with engine.begin() as connection:
        connection.execute(text("create table trials (number int)"))
        connection.execute(text("insert into trials values (7)"))
    engine.dispose()
    postgresql.restart()
    with engine.connect() as connection:
        assert connection.execute(text("select number from trials")).scalar() == 7
    engine.dispose()
