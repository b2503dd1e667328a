"""What stays open: streams, sockets and long polls, as plain ASGI in front of Django. None of them holds a thread."""

from .application import application

__all__ = ["application"]
