# SPDX-License-Identifier: MIT
from spack.package import *

try:
    from spack_repo.builtin.build_systems.cmake import CMakePackage
except ImportError:
    pass  # before Spack 1.0 it comes with spack.package


class Libmemcached(CMakePackage):
    """Client library of Memcached, as it is maintained under the name libmemcached-awesome."""

    homepage = "https://awesomized.github.io/libmemcached"
    git = "https://github.com/awesomized/libmemcached.git"

    license("BSD-3-Clause")

    version("1.1.4", tag="1.1.4")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.9:", type="build")
    depends_on("bison", type="build")
    depends_on("flex", type="build")

    def cmake_args(self):
        return [
            self.define("BUILD_TESTING", False),
            self.define("BUILD_DOCS", False),
            self.define("ENABLE_SASL", False),
        ]
