"""Writes the calls and the records of the Python client from the OpenAPI document, which the views declare.

A call becomes one method: its path, the parameters of its query and the fields of its body are the arguments. A call
that every machine has becomes one method for all of them, with the collection as its first argument.
"""

from .calls import render_calls as render_calls
from .models import render_models as render_models
