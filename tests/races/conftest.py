"""One set of contenders for all the races."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.races.contest import Answer, Call, Contest, contest


@pytest.fixture(scope="session")
def contenders(django_db_setup: None) -> Iterator[Contest]:
    with contest() as found:
        yield found


@pytest.fixture
def race(contenders: Contest, transactional_db: None) -> Callable[[Sequence[Call]], list[Answer]]:
    """Let the calls loose at once; whatever but an outcome or a refusal comes back fails the test."""

    def run(calls: Sequence[Call]) -> list[Answer]:
        answers = contenders.race(calls)
        assert not [answer.escaped for answer in answers if answer.escaped]
        return answers

    return run


@pytest.fixture
def crowd(contenders: Contest) -> int:
    """How many there are to race."""
    return contenders.size
