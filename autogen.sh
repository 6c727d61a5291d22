#!/bin/sh
# Makes configure in a clone; a release tarball already has it.
set -e
cd "$(dirname "$0")"
mkdir -p build-aux m4
exec autoreconf --install --force "$@"
