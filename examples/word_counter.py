"""Counts words, and fetches pages: a worker with an ordinary and an `async` function."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from dataclasses import dataclass

import httpx

from statecore_client import Context, TaskFailed, Worker

worker = Worker("word-counter", concurrency=2)


@dataclass
class Text:
    text: str
    longest: int = 10


@worker.task("count-words")
def count(ctx: Context, spec: Text) -> dict[str, int]:
    words = spec.text.split()
    counts: Counter[str] = Counter()
    for number, word in enumerate(words, start=1):
        ctx.raise_if_cancelled()
        ctx.progress(number / len(words), f"{number} of {len(words)} words")
        counts[word] += 1
    found = counts.most_common(spec.longest)
    for word, times in found:
        ctx.log(f"{times} {word}")
    return dict(found)  # the result, an input of the tasks that depend on this one


@dataclass
class Page:
    url: str


# A page that cannot be fetched is tried again; one that does not exist never will be there.
@worker.task("fetch-page", retry_on=(httpx.TransportError,))
async def fetch(ctx: Context, page: Page) -> None:
    async with httpx.AsyncClient() as http:
        response = await http.get(page.url)
    if response.is_client_error:
        raise TaskFailed(f"{page.url} answers with status {response.status_code}", retry=False)
    ctx.log(response.text)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sys.exit(worker.run())
