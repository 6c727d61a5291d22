#!/bin/sh
# Makes configure from a clone; not needed for a release tarball.
set -e
cd "$(dirname "$0")"
mkdir -p build-aux m4
exec autoreconf --install --force "$@"
