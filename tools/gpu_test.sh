#!/usr/bin/env bash
# Every test that needs an NVIDIA GPU: all cases on CUDA and on NVIDIA's OpenCL, PyTorch's memory and CUDA graphs, the
# HIP layer with client programs, the demo, a memory check of every kernel. Usage: gpu_test.sh BUILD_DIR [PART [CASES_DIR]];
# the last line says passed or failed. Parts, of at most ten minutes each on 16 cores, where one run must not take longer:
# cuda (PyTorch, HIP, the demo, case files), operations (the C API and PyTorch's operations on CUDA), opencl, points (tune
# points, repeated runs), memory (memory and race checks); otherwise all.
# SPDX-License-Identifier: MIT
set -uo pipefail
build=$(cd "$1" && pwd)
here=$(cd "$(dirname "$0")/.." && pwd)
part=${2:-all}
case $part in
  all | cuda | operations | opencl | points | memory) ;;
  *) echo "part '$part': allowed are cuda, operations, opencl, points, memory and all"; exit 2 ;;
esac
export POLYMIO_TEST_CASES=${3:-$here/tests/cases}
export LD_LIBRARY_PATH=$build/lib:${LD_LIBRARY_PATH:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export MIOPEN_USER_DB_PATH=$work/db MIOPEN_CUSTOM_CACHE_DIR=$work/kernels
failed=()

runs() { [ "$part" = all ] || [ "$part" = "$1" ]; }

note() { echo "$1: $2"; [ "$2" = passed ] || failed+=("$1"); }

nvidia_opencl() {  # its library is not always registered with the loader
  local lib
  lib=$(ldconfig -p | awk '/libnvidia-opencl.so.1/ {print $NF; exit}')
  [ -n "$lib" ] || lib=$(find /usr/local/nvidia /usr/lib -name 'libnvidia-opencl.so.1' 2>/dev/null | head -1)
  echo "$lib"
}

# Jobs run concurrently: compilation takes most of the time and does not load the cores evenly. Each has about half a
# GiB of the GPU's memory for its context.
most_jobs=64
start() {  # name, limit in seconds, command...
  local name=$1 limit=$2
  shift 2
  while [ "$(jobs -rp | wc -l)" -ge $most_jobs ]; do sleep 0.2; done
  (begin=$SECONDS; timeout "$limit" "$@" >"$work/$name" 2>&1; echo $? $((SECONDS - begin)) >"$work/$name.status") &
}

# Divides the lines of a file of convolutions among pieces, in a folder of cases: a process compiles one program after
# another.
divide() {  # file, pieces, folder
  local piece name
  mkdir -p "$3/convolution"
  for ((piece = 0; piece < $2; ++piece)); do
    name=$3/convolution/$(basename "$1" .txt)_$piece.txt
    grep -v '^#' "$1" | awk -v piece=$piece -v pieces="$2" 'NR % pieces == piece' >"$name"
    echo "$name"
  done
}

start_operations_on() {  # device
  local job i=0
  export POLYMIO_TEST_DEVICE=$1
  local host="*Errors*:PoolingApi.AnyAddress:Fusion.ExecutionsUseTheMemoryOfTheCompilation"  # what needs no GPU
  for job in "solver_tests Fused.EverySolverComputesEveryActivation" "solver_tests Fused.EverySolverComputesNorms*" \
    "solver_tests Fused.EveryType*:Fused.Scalars*" "capi_tests TensorOps.*" "capi_tests ActivationApi.*-$host" \
    "capi_tests *NormApi.*:*LossApi.*:CatApi.*:DropoutApi.*:GetitemApi.*:KthvalueApi.*-$host" \
    "capi_tests LrnApi.*:OptimizerApi.*:PoolingApi.*:PreluApi.*:ReduceApi.*:RopeApi.*:Softmax*-$host" \
    "capi_tests CtcApi.*:Rnn*-*Wrong*" "capi_tests Fusion.*:GraphDevices.*:GraphNorm.*-$host" "capi_tests MhaProblem.Sol*" \
    "capi_tests GraphAttention.*:GraphRun.*-*Refuses*" "capi_tests Chains.*:FusedProblems.Bias*:FusedProblems.Layouts*:FusedProblems.Any*" \
    "solver_tests Gpu*.*"; do
    start "operations.$1.$((i++))" 540 "$build/bin/${job% *}" --gtest_filter="${job#* }"
  done
  for job in batch layer group rms pooling softmax lrn rope glu prelu activation attention loss recurrent reduce extreme \
    calculation cat getitem kthvalue adam; do
    [[ $1 = cuda* ]] && start "operations.$1.$((i++))" 540 \
      python3 "$here/tests/torch/torch_test.py" "$build/lib/libMIOpen.so.1" --device cuda --shapes 8 --only $job
  done
}

start_cases_on() {  # device
  local file part title every cases pieces
  export POLYMIO_TEST_DEVICE=$1
  for file in "$POLYMIO_TEST_CASES"/*/*.txt; do
    title=$(basename "$(dirname "$file")")_$(basename "$file" .txt)
    cases=$POLYMIO_TEST_CASES pieces=$file
    case $title in convolution_dtypes | convolution_gpu_hopper_bytes)
      cases=$work/pieces
      pieces=$(divide "$file" 4 "$cases")
      ;;
    esac
    case $title in reduce_shapes | norm_shapes) every=4 ;; *) every=1 ;; esac  # they compile hundreds of programs
    for part in $pieces; do
      title=$(basename "$(dirname "$part")")_$(basename "$part" .txt)
      POLYMIO_TEST_CASES=$cases POLYMIO_TEST_EVERY=$every start "cases.$1.$title" 540 "$build/bin/solver_tests" --gtest_filter="*/$title"
    done
  done
}

start_tune_points() {  # every one of the kernels whose tiles are templates, a process per few lines: each compiles
  local file part pieces i=0
  for file in gpu_hopper gpu_hopper_bytes gpu_hopper_groups gpu_hopper_packed gpu_hopper_split gpu_long_filters gpu_few_channels depthwise_1d; do
    pieces=6
    [ $file = gpu_hopper_bytes ] && pieces=24
    for part in $(divide "$POLYMIO_TEST_CASES/convolution/$file.txt" $pieces "$work/points"); do
      POLYMIO_TEST_CASES=$work/points POLYMIO_TEST_POINTS=all \
        POLYMIO_TEST_ONLY=ConvHopper,ConvCudaLongFilters,ConvCudaFewChannels,ConvCudaDepthwise1d,ConvGpuDepthwise \
        POLYMIO_TEST_DEVICE=cuda:0 start points.$((i++)) 540 "$build/bin/solver_tests" \
        --gtest_filter="*/convolution_$(basename "$part" .txt)"
    done
  done
}

start_repeated_runs() {  # beside all other processes: results must have the same bits
  local file
  for file in gpu_hopper gpu_hopper_bytes gpu_hopper_groups gpu_hopper_packed gpu_hopper_split gpu_tensor_tiles \
    gpu_long_filters gpu_few_channels gpu_kernels depthwise_1d; do
    POLYMIO_TEST_RUNS=20 POLYMIO_TEST_ONLY=ConvHopper,ConvCuda POLYMIO_TEST_WITHOUT=ConvCudaGemm \
      POLYMIO_TEST_DEVICE=cuda:0 start "repeated.$file" 540 "$build/bin/solver_tests" --gtest_filter="*/convolution_$file"
  done
}

start_memory_checks() {  # a small problem per kernel
  local tool job i every check
  export POLYMIO_TEST_DEVICE=cuda:0
  for tool in memcheck racecheck; do
    check="compute-sanitizer --tool $tool --error-exitcode 9"
    # The library asks the driver whether pointers of callers are the device's: for others that is an error of the call.
    [ $tool = memcheck ] && check+=" --report-api-errors no"
    # racecheck does not track the barriers by which Hopper's kernels pass data that the copy engine (TMA) writes.
    if [ $tool = racecheck ]; then
      export POLYMIO_TEST_WITHOUT=ConvCudaGemm,ConvHopper
      check+=" --kernel-name-exclude kernel_name=attention"  # of MhaHopper
    fi
    i=0
    for job in "1 solver_tests */convolution_gpu_kernels" "7 capi_tests TensorOps.*" "7 capi_tests ActivationApi.*-*Errors*" \
      "7 capi_tests Rnn*-*Wrong*" "7 capi_tests MhaProblem.Sol*" "7 capi_tests CtcApi.*-*Errors*" \
      "7 capi_tests GraphDevices.*" "7 capi_tests PoolingApi.*:NormApi.*-*Errors*:*AnyAddress" \
      "7 capi_tests Softmax*:ReduceApi.*:DropoutApi.*-*Errors*"; do
      read -r every job <<<"$job"
      POLYMIO_TEST_EVERY=$every start "$tool.$((i++))" 540 $check "$build/bin/${job% *}" --gtest_filter="${job#* }"
    done
    for job in "ConvGpuDepthwise gpu_depthwise_matrix" "ConvCudaDepthwise1d depthwise_1d" "ConvCudaTensor gpu_tensor_tiles" "ConvCudaLongFilters gpu_long_filters" "ConvCudaFewChannels gpu_few_channels" "ConvHopper gpu_hopper" "ConvHopper gpu_hopper_bytes" "ConvHopper gpu_hopper_groups" "ConvHopperPacked gpu_hopper_packed" "ConvHopperSplit gpu_hopper_split"; do
      [[ "$tool ${job% *}" != "racecheck ConvHopper"* ]] || continue
      POLYMIO_TEST_ONLY=${job% *} start "$tool.$((i++))" 540 $check "$build/bin/solver_tests" --gtest_filter="*/convolution_${job#* }"
    done
  done
  unset POLYMIO_TEST_WITHOUT
}

finished() {  # names of logs
  local file
  for file in "$work"/$1; do
    [[ $file == *.status || -s $file.status ]] || return 1
  done
}

report() {  # what, names of its logs
  local file status ok=passed slowest
  until finished "$2"; do sleep 1; done
  for file in "$work"/$2; do
    [[ $file == *.status ]] && continue
    read -r status _ <"$file.status"
    [ "$status" = 0 ] && grep -q PASSED "$file" && ! grep -q SKIPPED "$file" && continue
    ok=failed
    echo "$(basename "$file"): status $status"
    grep -E 'Failure|wrong|WRONG|exception|FAILED|SKIPPED|[Ee]rror|no device' -A4 "$file" | head -20
    [ "$status" = 0 ] || tail -3 "$file"
    grep -oE 'access at [A-Za-z_0-9]+' "$file" | sort | uniq -c  # the kernels that racecheck reports
  done
  slowest=$(for file in "$work"/$2.status; do echo "$(cut -d' ' -f2 "$file") s: $(basename "$file" .status)"; done | sort -rn | head -3)
  echo "${slowest//$'\n'/, }"
  note "$1" $ok
}

export OCL_ICD_FILENAMES OCL_ICD_VENDORS=$work/vendors/
OCL_ICD_FILENAMES=$(nvidia_opencl)
mkdir "$OCL_ICD_VENDORS"
echo "$OCL_ICD_FILENAMES" >"$OCL_ICD_VENDORS/nvidia.icd"
"$build/bin/MIOpenDriver" devices | tee "$work/devices"
hip_layer() {  # client programs and the layer's own tests on cuda:0
  local client
  export POLYMIO_DEVICE=cuda:0
  "$build/bin/hip_tests" || return
  for client in "$build"/clients/*; do
    [ -x "$client" ] && [ -f "$client" ] || continue
    echo "$client"
    MIOPEN_DEBUG_CONV_IMPLICIT_GEMM=$([ "${client##*/}" = layers ] && echo 0 || echo 1) "$client" || return
  done
}
programs() {  # that use the library as others do
  local ok
  python3 "$here/tests/gpu/torch_test.py" "$build/lib/libMIOpen.so.1" && note PyTorch passed || note PyTorch failed
  (hip_layer) >"$work/hip" 2>&1 && [ "$(grep -c ': passed$' "$work/hip")" = 5 ] && ok=passed || ok=failed
  [ $ok = passed ] || tail -20 "$work/hip"
  note "HIP layer on cuda:0" $ok
  (cd "$work" && "$build/bin/MIOpenDriver" demo --device cuda:0 >demo 2>&1) && ok=passed || ok=failed
  tail -8 "$work/demo"
  note "demo on cuda:0" $ok
  echo "$SECONDS s so far"
}

operations=() cases=()  # their devices
runs cuda && programs && cases+=(cuda:0)
runs operations && operations+=(cuda:0)
if runs opencl; then
  grep -q '^opencl:0 .*opencl-nvidia' "$work/devices" && operations+=(opencl:0) cases+=(opencl:0) || note "NVIDIA's OpenCL" failed
fi
checker=$(command -v compute-sanitizer)
for device in "${operations[@]}"; do start_operations_on "$device"; done  # first, since they take longest
for device in "${cases[@]}"; do start_cases_on "$device"; done
runs points && start_tune_points && start_repeated_runs
if runs memory; then
  [ -n "$checker" ] && start_memory_checks || note "compute-sanitizer" "not found"
fi
sleep 1
for device in "${cases[@]}"; do
  report "cases on $device" "cases.$device.*[a-z0-9_]"
  cat "$work/cases.$device".* | awk '/^  [A-Z][A-Za-z0-9]+(Cpu|Gpu|Cuda|Hopper)/ {n[$1] += $2} END {for (s in n) print "  " s, n[s]}' | sort
done
for device in "${operations[@]}"; do
  report "other operations on $device" "operations.$device.*[0-9]"
done
if runs points; then
  report "tune points" "points.*[0-9]"
  report "20 runs of each solver" "repeated.*[a-z0-9]"
fi
if runs memory && [ -n "$checker" ]; then
  for tool in memcheck racecheck; do report $tool "$tool.*[0-9]"; done
fi
echo "$SECONDS s"
[ ${#failed[@]} -eq 0 ] && echo "all GPU tests passed" || { echo "FAILED: ${failed[*]}"; exit 1; }
