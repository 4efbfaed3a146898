"""pyproject.toml says everything; this only keeps what an earlier build left in build/ out of the
next wheel: setuptools would pack it again."""

import shutil

from setuptools import setup
from setuptools.command.build import build


class FreshBuild(build):
    def run(self) -> None:
        shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build": FreshBuild})
