"""For every test: the environment the program gives torch, and no data folder of the user's."""

import os

from specdec.torch_env import prepare

prepare()
# A test that names no data folder of its own fails here instead of writing into the user's.
os.environ["XDG_DATA_HOME"] = os.devnull
