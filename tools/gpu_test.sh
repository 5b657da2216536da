#!/usr/bin/env bash
# Every test that needs an NVIDIA GPU: all cases on CUDA and on NVIDIA's OpenCL, PyTorch's memory and CUDA graphs, the
# demo, a memory check of every kernel. Usage: gpu_test.sh BUILD_DIR [CASES_DIR]; the last line says passed or failed.
# SPDX-License-Identifier: MIT
set -uo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
export POLYMIO_TEST_CASES=${2:-$here/tests/cases}
export LD_LIBRARY_PATH=$build/lib:${LD_LIBRARY_PATH:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MIOPEN_USER_DB_PATH=$work/db MIOPEN_CUSTOM_CACHE_DIR=$work/kernels
failed=()

note() { echo "$1: $2"; [ "$2" = passed ] || failed+=("$1"); }

nvidia_opencl() {  # its library is not always registered with the loader
  local lib
  lib=$(ldconfig -p | awk '/libnvidia-opencl.so.1/ {print $NF; exit}')
  [ -n "$lib" ] || lib=$(find /usr/local/nvidia /usr/lib -name 'libnvidia-opencl.so.1' 2>/dev/null | head -1)
  echo "$lib"
}

all_cases() {  # device
  local file name pids=() names=() i ok=passed
  for file in "$POLYMIO_TEST_CASES"/*.txt; do
    name=$(basename "$file" .txt)
    POLYMIO_TEST_DEVICE=$1 timeout 150 "$build/bin/solver_cases" --gtest_filter="*/$name" >"$work/$1.$name" 2>&1 &
    pids+=($!) names+=("$name")
  done
  for i in "${!pids[@]}"; do
    wait "${pids[$i]}" && ! grep -q SKIPPED "$work/$1.${names[$i]}" && continue
    ok=failed
    grep -E 'Failure|wrong|exception|SKIPPED|error|no device' -A3 "$work/$1.${names[$i]}" | head -20
  done
  cat "$work/$1".* | awk '/^  Conv/ {n[$1] += $2} END {for (s in n) print "  " s, n[s]}' | sort
  note "cases on $1" $ok
}

operations() {  # device: all but plain convolutions
  local i ok=passed jobs=("capi_tests TensorOps.*" "capi_tests ActivationApi.*-*Errors*" "activation_tests *EveryFunction*"
    "fused_tests Fused.Every*:Fused.Scalars*") pids=()
  for i in "${!jobs[@]}"; do
    POLYMIO_TEST_DEVICE=$1 timeout 200 "$build/bin/${jobs[$i]% *}" --gtest_filter="${jobs[$i]#* }" \
      >"$work/$1.operations.$i" 2>&1 &
    pids+=($!)
  done
  for i in "${!jobs[@]}"; do
    wait "${pids[$i]}" && grep -q 'PASSED' "$work/$1.operations.$i" && continue
    ok=failed
    grep -E 'Failure|exception|FAILED|error|no device' -A4 "$work/$1.operations.$i" | head -20
  done
  note "other operations on $1" $ok
}

checks=("solver_cases */gpu_kernels 1" "capi_tests TensorOps.* 7" "capi_tests ActivationApi.*-*Errors* 7")
tools=(memcheck racecheck)
start_memory_checks() {  # of a small problem of every kernel, beside other tests
  local tool i job
  for tool in "${tools[@]}"; do
    for i in "${!checks[@]}"; do
      read -ra job <<<"${checks[$i]}"
      (POLYMIO_TEST_DEVICE=cuda:0 POLYMIO_TEST_EVERY=${job[2]} timeout 150 compute-sanitizer --tool "$tool" --error-exitcode 9 \
        "$build/bin/${job[0]}" --gtest_filter="${job[1]}" >"$work/$tool.$i" 2>&1; echo $? >"$work/$tool.$i.status") &
    done
  done
}

end_memory_checks() {
  local tool i
  wait
  for tool in "${tools[@]}"; do
    for i in "${!checks[@]}"; do
      [ "$(cat "$work/$tool.$i.status")" = 0 ] && note "$tool of ${checks[$i]% *}" passed && continue
      tail -20 "$work/$tool.$i"
      note "$tool of ${checks[$i]% *}" failed
    done
  done
}

"$build/bin/MIOpenDriver" devices
operations cuda:0
all_cases cuda:0
python3 "$here/tests/gpu/torch_test.py" "$build/lib/libMIOpen.so.1" && note PyTorch passed || note PyTorch failed
(cd "$work" && "$build/bin/MIOpenDriver" demo --device cuda:0 >demo 2>&1) && ok=passed || ok=failed
tail -8 "$work/demo"
note "demo on cuda:0" $ok
echo "$SECONDS s so far"
! command -v compute-sanitizer >/dev/null || start_memory_checks
OCL_ICD_FILENAMES=$(nvidia_opencl)
OCL_ICD_VENDORS=$work/vendors/
mkdir "$OCL_ICD_VENDORS"
echo "$OCL_ICD_FILENAMES" >"$OCL_ICD_VENDORS/nvidia.icd"
export OCL_ICD_FILENAMES OCL_ICD_VENDORS
if "$build/bin/MIOpenDriver" devices | grep -q '^opencl:0 .*opencl-nvidia'; then
  operations opencl:0
  all_cases opencl:0
else
  note "NVIDIA's OpenCL" failed
fi
echo "$SECONDS s so far"
! command -v compute-sanitizer >/dev/null || end_memory_checks
echo "$SECONDS s"
[ ${#failed[@]} -eq 0 ] && echo "all GPU tests passed" || { echo "FAILED: ${failed[*]}"; exit 1; }
