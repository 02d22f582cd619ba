"""All projections that are kept, with every version that this code can still build."""

from watchkeeper.projections.views.bindings import BINDINGS
from watchkeeper.projections.views.sizes import SIZES
from watchkeeper.projections.views.view import Projection
from watchkeeper.projections.views.weeks import WEEKS

PROJECTIONS: tuple[Projection, ...] = (BINDINGS, SIZES, WEEKS)
"""The newest version of each name is the wanted one. An older one stays here for one release, so
that it is kept up to date, and read, until the newer one is level with it."""
