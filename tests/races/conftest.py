"""One pool of contenders for all races."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.races.contest import Answer, Call, Contest, contest


@pytest.fixture(scope="session")
def contenders(django_db_setup: None) -> Iterator[Contest]:
    with contest() as found:
        yield found


@pytest.fixture
def race(contenders: Contest, transactional_db: None) -> Callable[[Sequence[Call]], list[Answer]]:
    """Returns a function that makes calls at the same moment and fails on any answer but an outcome or a refusal."""

    def run(calls: Sequence[Call]) -> list[Answer]:
        answers = contenders.race(calls)
        assert not [answer.escaped for answer in answers if answer.escaped]
        return answers

    return run


@pytest.fixture
def crowd(contenders: Contest) -> int:
    """The number of contenders."""
    return contenders.size
