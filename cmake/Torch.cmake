# libtorch from the pinned PyPI wheel, as imported targets of our own: find_package(Torch) of a CUDA
# wheel refuses to configure on a machine without nvcc. setup.sh pins the versions.
foreach(library torch nccl)
  file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/setup.sh line REGEX "^${library}_version=")
  string(REPLACE "${library}_version=" "" ${library}_version ${line})
endforeach()
if(DEFINED ENV{PLANWRIGHT_DEPS})
  set(deps $ENV{PLANWRIGHT_DEPS})
elseif(DEFINED ENV{XDG_CACHE_HOME})
  set(deps $ENV{XDG_CACHE_HOME}/planwright)
else()
  set(deps $ENV{HOME}/.cache/planwright)
endif()
set(PLANWRIGHT_TORCH_DIR ${deps}/torch-${torch_version} CACHE PATH "Folder that holds torch/ and nvidia/ of the wheels")
set(torch ${PLANWRIGHT_TORCH_DIR}/torch)
set(wheel_cuda ${PLANWRIGHT_TORCH_DIR}/nvidia/cu13)

if(NOT EXISTS ${torch}/lib/libtorch_cpu.so)
  message(FATAL_ERROR "No libtorch in ${PLANWRIGHT_TORCH_DIR}: run `./dev setup`, name another folder with "
      "-DPLANWRIGHT_TORCH_DIR=, or build without the worker (-DPLANWRIGHT_WORKER=OFF).")
endif()
file(STRINGS ${torch}/version.py line REGEX "^__version__")
string(REGEX MATCH "[0-9.]+" PLANWRIGHT_TORCH_VERSION "${line}")
if(NOT PLANWRIGHT_TORCH_VERSION STREQUAL torch_version)
  message(FATAL_ERROR "libtorch in ${PLANWRIGHT_TORCH_DIR} is ${PLANWRIGHT_TORCH_VERSION}; "
      "the worker is written for ${torch_version}.")
endif()

# -idirafter: the wheel carries another fmt, and ours must be found first.
# Without the USE_ macros the c10d headers are empty, and without NDEBUG at::RecordFunction and
# intrusive_ptr are laid out and counted otherwise than in the library.
add_library(libtorch_headers INTERFACE)
target_compile_options(libtorch_headers INTERFACE "SHELL:-idirafter ${torch}/include"
    "SHELL:-idirafter ${torch}/include/torch/csrc/api/include")
target_compile_definitions(libtorch_headers INTERFACE NDEBUG USE_DISTRIBUTED USE_C10D_GLOO)

# Not libtorch.so: that stub needs libtorch_cuda, which starts only where all of CUDA is installed.
add_library(libtorch_cpu INTERFACE)
# The OpenMP library that libtorch itself loads, so that there is one pool of threads.
target_link_libraries(libtorch_cpu INTERFACE ${torch}/lib/libtorch_cpu.so ${torch}/lib/libc10.so
    ${torch}/lib/libgomp.so.1)
target_link_options(libtorch_cpu INTERFACE -Wl,--enable-new-dtags)

# The headers of another NCCL minor would change the layout of ProcessGroupNCCL::Options.
set(PLANWRIGHT_NCCL_VERSION ${nccl_version})
find_path(cuda_include cusolverDn.h NO_CACHE NO_DEFAULT_PATH
    PATHS ${wheel_cuda}/include $ENV{CUDA_HOME}/include /usr/local/cuda/include)
find_path(nccl_include nccl.h NO_CACHE NO_DEFAULT_PATH
    PATHS ${PLANWRIGHT_TORCH_DIR}/nvidia/nccl/include ${cuda_include})

set(missing "")
foreach(header cuda_runtime_api.h cublas_v2.h cublasLt.h cusparse.h cusolverDn.h)
  if(NOT EXISTS ${cuda_include}/${header})
    list(APPEND missing ${header})
  endif()
endforeach()
set(found_nccl none)
if(nccl_include)
  file(STRINGS ${nccl_include}/nccl.h lines REGEX "^#define NCCL_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" numbers "${lines}")
  list(JOIN numbers "." found_nccl)
endif()
if(NOT found_nccl STREQUAL PLANWRIGHT_NCCL_VERSION)
  list(APPEND missing "nccl.h of ${PLANWRIGHT_NCCL_VERSION} (found: ${found_nccl})")
endif()
if(NOT missing)
  file(STRINGS ${cuda_include}/cuda_runtime_api.h line REGEX "define CUDART_VERSION")
  string(REGEX MATCH "[0-9]+$" number "${line}")
  math(EXPR major "${number} / 1000")
  math(EXPR minor "${number} % 1000 / 10")
  set(PLANWRIGHT_CUDA_VERSION ${major}.${minor})
  if(NOT major EQUAL 13)
    list(APPEND missing "headers of CUDA 13 (found: ${PLANWRIGHT_CUDA_VERSION})")
  endif()
endif()

if(PLANWRIGHT_CUDA_WORKER STREQUAL "OFF")
  set(build_cuda_worker OFF)
elseif(NOT missing)
  set(build_cuda_worker ON)
elseif(PLANWRIGHT_CUDA_WORKER STREQUAL "ON")
  message(FATAL_ERROR "The CUDA worker lacks: ${missing}")
else()
  set(build_cuda_worker OFF)
  message(STATUS "Without the CUDA worker; it lacks: ${missing}")
endif()

if(build_cuda_worker)
  add_library(libtorch_cuda_headers INTERFACE)
  target_include_directories(libtorch_cuda_headers SYSTEM INTERFACE ${cuda_include} ${nccl_include})
  target_compile_definitions(libtorch_cuda_headers INTERFACE PLANWRIGHT_CUDA=1 USE_CUDA USE_C10D_NCCL)

  # Nothing refers to libtorch by name, yet it has to be loaded. The CUDA libraries it needs in turn
  # may be absent where the worker is only built.
  add_library(libtorch_cuda INTERFACE)
  target_link_libraries(libtorch_cuda INTERFACE libtorch_cpu
      -Wl,--push-state,--no-as-needed ${torch}/lib/libtorch_cuda.so ${torch}/lib/libtorch.so -Wl,--pop-state
      ${torch}/lib/libc10_cuda.so ${wheel_cuda}/lib/libcudart.so.13)
  target_link_options(libtorch_cuda INTERFACE -Wl,--unresolved-symbols=ignore-in-shared-libs)
else()
  set(PLANWRIGHT_CUDA_VERSION none)
  set(PLANWRIGHT_NCCL_VERSION none)
endif()
