"""The plain client: performs calls one after the other, in the caller's thread. Threads may share one."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Self, TypeVar

import httpx

from .call import Call
from .calls import Calls
from .records import Page, Positioned
from .retries import Heard, Pause, Send, converse
from .stream import Lines, Stream

T = TypeVar("T")


class Client(Calls):
    def perform(self, call: Call[T]) -> T:
        talk = converse(call, self.patience)
        step = next(talk)
        try:
            while True:
                step = talk.send(self._do(step))
        except StopIteration as end:
            result: T = end.value
            return result

    def _do(self, step: Send | Pause) -> Heard | None:
        if isinstance(step, Pause):
            time.sleep(step.seconds)
            return None
        try:
            response: httpx.Response = self.http.request(**self.request(step))
        except httpx.RequestError as error:
            return error
        return response

    def follow(self, call: Call[Page[T]]) -> Iterator[T]:
        following: Call[Page[T]] | None = call
        while following is not None:
            page = self.perform(following)
            yield from page.results
            following = self.after(following, page)

    def stream(self, after: int | None = None, **params: Any) -> Iterator[Positioned]:
        """Events in order, as they happen, without gap or repeat over lost connections; it ends when it is closed."""
        stream = Stream(after, params, self.patience)
        while True:
            heard: Heard | None = None
            try:
                with self.http.stream(**self.listening(stream)) as response:
                    if response.is_success:
                        lines = Lines()
                        for data in response.iter_bytes():
                            for line in lines.add(data):
                                if event := stream.hear(line):
                                    yield event
                    else:
                        response.read()
                        heard = response
            except httpx.RequestError as error:
                heard = error
            time.sleep(stream.lost(heard))

    def close(self) -> None:
        self.http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _opened(self, **settings: Any) -> httpx.Client:
        return httpx.Client(**settings)
