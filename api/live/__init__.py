"""Event streams, WebSockets and long polls as ASGI applications in front of Django; none of them holds a thread."""

from .application import application

__all__ = ["application"]
