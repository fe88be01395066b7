# A CMake toolchain: the kernels for 64-bit ARM, by Debian's cross compiler (tools/test_aarch64).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
