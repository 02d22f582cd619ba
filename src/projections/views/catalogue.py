"""All kept projections, with every version that this code can still build."""

from watchkeeper.projections.views.bindings import BINDINGS
from watchkeeper.projections.views.sizes import SIZES
from watchkeeper.projections.views.view import Projection
from watchkeeper.projections.views.weeks import WEEKS

PROJECTIONS: tuple[Projection, ...] = (BINDINGS, SIZES, WEEKS)
"""The newest version of each name is the wanted one. An older version stays here for one release.
It is kept current and read until the newer one is level with it."""
