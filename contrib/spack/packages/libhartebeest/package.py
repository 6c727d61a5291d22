# SPDX-License-Identifier: MIT
from spack.package import *

try:
    from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
except ImportError:
    pass  # before Spack 1.0 it comes with spack.package


class Libhartebeest(AutotoolsPackage):
    """Brings RDMA queue pairs up through a Memcached server: InfiniBand and RoCE;
    RC, UC and UD."""

    homepage = "https://example.org/libhartebeest"
    git = "https://example.org/libhartebeest.git"

    license("MIT")

    # By tag: a recipe in the tarball cannot know the checksum of the tarball.
    version("main", branch="main")
    version("0.1.0", tag="v0.1.0")

    variant("rdmacm", default=True, description="Resolve addresses through librdmacm")
    variant("openssl", default=True, description="Seal records of jobs with a secret")

    depends_on("c", type="build")
    depends_on("autoconf@2.69:", type="build")
    depends_on("automake@1.13.4:", type="build")
    depends_on("libtool@2.4.2:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("rdma-core@22.4:")
    depends_on("libmemcached@1.0.16:")
    depends_on("json-c@0.11:")
    depends_on("openssl@1.0.2:", when="+openssl")
    depends_on("memcached", type="run")

    def autoreconf(self, spec, prefix):
        Executable("./autogen.sh")()

    def configure_args(self):
        return self.with_or_without("rdmacm") + self.with_or_without("openssl")
