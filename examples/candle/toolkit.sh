#!/bin/sh
# Puts together from NVIDIA's wheels on PyPI what the feature `cuda` needs: `nvcc`, and CUDA's
# libraries under the names that the linker looks for. Prints the variables for the build:
#
#     eval "$(examples/candle/toolkit.sh ~/cuda-13.0)"
#     cd examples/candle && cargo build --release --features cuda
#
# It needs pip and a C compiler. CUDA_COMPUTE_CAP names the GPU's architecture (default: 90).
set -eu
mkdir -p "$1"
folder=$(cd "$1" && pwd)
cuda=$folder/nvidia/cu13
if [ ! -e "$cuda/bin/nvcc" ]; then
    python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder" \
        'nvidia-cuda-nvcc==13.0.*' 'nvidia-nvvm==13.0.*' 'nvidia-cuda-crt==13.0.*' 'nvidia-cuda-cccl==13.0.*' \
        'nvidia-cuda-runtime==13.0.*' 'nvidia-cuda-nvrtc==13.0.*' 'nvidia-cublas==13.0.*' 'nvidia-curand==10.4.*' >&2
fi
# The wheels have no links without a version, and no folder lib64.
ln -sfn lib "$cuda/lib64"
for library in "$cuda"/lib/lib*.so.*; do
    ln -sf "$(basename "$library")" "${library%%.so.*}.so"
done
# In place of the driver's library, which the program finds when it starts.
mkdir -p "$cuda/lib/stubs"
grep -ohE '\bcu[A-Z][A-Za-z0-9_]*' "$cuda/include/cuda.h" "$cuda/include/cudaProfiler.h" 2>/dev/null | sort -u |
    sed 's/.*/void &(void) {}/' | cc -w -fno-builtin -shared -Wl,-soname,libcuda.so.1 -x c -o "$cuda/lib/stubs/libcuda.so" -
echo "export CUDA_HOME='$cuda' NVCC='$cuda/bin/nvcc' CUDA_COMPUTE_CAP=${CUDA_COMPUTE_CAP:-90}"
echo "export PATH='$cuda/bin':\"\$PATH\" LIBRARY_PATH='$cuda/lib/stubs:$cuda/lib' LD_LIBRARY_PATH='$cuda/lib'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}"
