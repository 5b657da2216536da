#!/bin/sh
# Tries the packages as a new user would: lintian; then, in a new Debian 12 in a temporary folder, installs them with apt,
# compiles and runs the README's program, removes them and compares the files with those before. The tarball is tried there
# too, before the packages. Needs root, the network, lintian and debootstrap.
# Usage: packaging/test_packages.sh [BASE]. BASE: a folder with a finished base system by debootstrap, which is copied.
# SPDX-License-Identifier: MIT
set -eu
cd "$(dirname "$0")/.."
[ "$(id -u)" -eq 0 ] || { echo "test_packages.sh: debootstrap and chroot need root" >&2; exit 1; }
for tool in lintian debootstrap; do
  command -v $tool >/dev/null || { echo "test_packages.sh: $tool is missing (apt-get install $tool)" >&2; exit 1; }
done
base=${1:+$(realpath "$1")}
out=$PWD/build/packages/out
say() { printf '\n== %s\n' "$*"; }

say "building"
packaging/build.sh "$out"
say "lintian"
lintian --allow-root --fail-on error "$out"/polymio*.deb

work=$(mktemp -d)
root=$work/root
clean() {
  status=$?
  ! mountpoint -q "$root/proc" || umount "$root/proc"
  # Nothing of the machine may be mounted below what is removed.
  if grep -q " $work/" /proc/mounts; then
    echo "test_packages.sh: $work is kept, since something is mounted in it" >&2
    exit 1
  fi
  rm -rf "$work"
  exit "$status"
}
trap clean EXIT
trap 'exit 1' INT TERM

if [ -n "$base" ]; then
  say "copying $base"
  cp -a "$base" "$root"
else
  say "debootstrap"
  debootstrap --variant=minbase bookworm "$root" >"$work/debootstrap.log" || { tail "$work/debootstrap.log"; exit 1; }
fi
cp /etc/resolv.conf "$root/etc/resolv.conf"
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"
in_root() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/trial LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    ${http_proxy:+http_proxy="$http_proxy"} "$@"
}
apt() {
  in_root apt-get -q -y --no-install-recommends "$@" >"$work/apt.log" 2>&1 || { tail -n 30 "$work/apt.log"; exit 1; }
}
files() {  # all but the package manager's own records, caches, and the folder of the trial, which is the home folder, too
  in_root find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /trial -o -path /var/lib/dpkg \
    -o -path /var/lib/apt -o -path /var/cache -o -path /var/log -o -path /etc/ld.so.cache \) -prune -o -print | sort
}

try_hipcc() {  # prefix
  hipcc=$(cd "$root" && find ".$1/lib" -path '*/polymio/rocm/bin/hipcc')
  in_root "/$hipcc" /trial/hip.cpp -o /trial/hip -lMIOpen
  in_root /trial/hip
}

say "a compiler, CMake and pkg-config"
apt update
apt install g++ cmake make pkg-config
mkdir "$root/trial"
printf '#include <hip/hip_runtime.h>\nint main() { return hipDeviceSynchronize(); }\n' >"$root/trial/hip.cpp"
cp packaging/client.sh examples/convolution.c "$out"/polymio*.deb "$root/trial"

say "the tarball"
tar -C "$root/trial" -xzf "$out"/polymio-*.tar.gz
mv "$root"/trial/polymio-*-linux-* "$root/trial/tree"
in_root /trial/client.sh /trial/convolution.c /trial/tree /trial/by_tarball
try_hipcc /trial/tree

files >"$work/before"
say "the packages"
set --
for deb in "$out"/polymio*.deb; do
  set -- "$@" "/trial/${deb##*/}"
done
apt install "$@"
in_root /trial/client.sh /trial/convolution.c /usr /trial/by_packages
in_root polymio-driver conv -n 1 -c 8 -H 14 -W 14 -k 8 -y 3 -x 3 -p 1 -q 1 -F 1 -V 1 >"$work/driver.log" 2>&1 ||
  { cat "$work/driver.log"; exit 1; }
try_hipcc /usr

say "another MIOpen's package is not installed beside"
mkdir -p "$work/other/DEBIAN"
printf 'Package: miopen-hip\nVersion: 3.5\nArchitecture: amd64\nMaintainer: none <none@none.invalid>\nDescription: none\n' \
  >"$work/other/DEBIAN/control"
dpkg-deb -b "$work/other" "$root/trial/other.deb" >/dev/null
if in_root dpkg -i /trial/other.deb >"$work/dpkg.log" 2>&1 || ! grep -q "conflict" "$work/dpkg.log"; then
  echo "miopen-hip was installed beside polymio-drop-in:" >&2
  cat "$work/dpkg.log" >&2
  exit 1
fi

say "removing"
apt purge polymio polymio-dev polymio-drop-in
apt autoremove --purge
files >"$work/after"
if ! diff "$work/before" "$work/after" >"$work/left"; then
  echo "files differ from those before (>: left behind):" >&2
  cat "$work/left" >&2
  exit 1
fi
echo "the packages install, work and leave nothing"
