#!/bin/sh
# Builds the three Debian packages and the tarball of this source into a folder (default: build/packages/out).
# Usage: packaging/build.sh [FOLDER]. Objects of build/release come from ccache where that is installed.
# SPDX-License-Identifier: MIT
set -eu
cd "$(dirname "$0")/.."
mkdir -p "${1:-build/packages/out}"
out=$(realpath "${1:-build/packages/out}")
build=$PWD/build/packages
CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
export CCACHE_BASEDIR CCACHE_NOHASHDIR

make_with() {  # generator prefix library-folder
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPOLYMIO_BENCH=OFF -DBUILD_TESTING=OFF \
    -DCMAKE_INSTALL_PREFIX="$2" -DCMAKE_INSTALL_LIBDIR="$3" -DPOLYMIO_ROCM_DIR="$3/polymio/rocm" >"$build.log"
  ninja -C "$build" MIOpen polymio_hip MIOpenDriver
  (cd "$build" && cpack -G "$1" -B "$build/cpack")
}

rm -f "$out"/polymio*.deb "$out"/polymio*.tar.gz "$out"/polymio*.sha256
rm -rf "$build/cpack"
make_with DEB /usr "lib/$(cc -print-multiarch)"
make_with TGZ /usr/local lib
mv "$build"/cpack/polymio* "$out"
ls -l "$out"
