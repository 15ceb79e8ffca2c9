"""Actions from recipes: the sections `factory`, `train` and `evaluate`, read, checked and carried out."""

from neumo.engine.recipes.actions import read_actions as read_actions
from neumo.engine.recipes.actions import section_mistakes as section_mistakes
from neumo.engine.recipes.kept import RECIPE as RECIPE
from neumo.engine.recipes.options import training_options as training_options
from neumo.engine.recipes.run import graph_to_train as graph_to_train
from neumo.engine.recipes.run import make_factory as make_factory
from neumo.engine.recipes.run import run_evaluate as run_evaluate
from neumo.engine.recipes.run import run_evaluations as run_evaluations
from neumo.engine.recipes.run import run_train as run_train
from neumo.engine.recipes.run import trained_weights as trained_weights
from neumo.engine.recipes.settings import Actions as Actions
from neumo.engine.recipes.settings import trained_graph as trained_graph
