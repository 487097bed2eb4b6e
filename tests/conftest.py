"""For every test: the environment the program gives torch, set before torch is imported."""

from specdec.torch_env import prepare

prepare()
