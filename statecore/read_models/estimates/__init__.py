"""When runs will probably end."""

from .run_estimate import Estimate as Estimate
from .run_estimate import estimate_run as estimate_run
from .run_estimate import list_estimates as list_estimates
