# add_worker(FOLDER <folder> USES <layer>... LINKS <key>...): planwright-worker-cpu and -cuda.
#
# A source is compiled once and serves both programs, except *_cpu.cpp and *_cuda.cpp, which belong
# to one program each, and sources that mention PLANWRIGHT_CUDA, which are compiled for each. The
# layer `worker` is the CPU program without its main.cpp; tests link it.
function(add_worker)
  cmake_parse_arguments(arg "" "" "FOLDER;USES;LINKS" ${ARGN})
  collect(worker ${ARGN})
  file(GLOB main CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/main.cpp)
  file(GLOB pch CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/pch.h)
  if(NOT PLANWRIGHT_WORKER OR NOT sources)
    return()
  endif()

  set(common ${sources})
  set(cpu ${sources})
  set(cuda ${sources})
  list(FILTER common EXCLUDE REGEX "_(cpu|cuda)\\.cpp$")
  list(FILTER cpu INCLUDE REGEX "_cpu\\.cpp$")
  list(FILTER cuda INCLUDE REGEX "_cuda\\.cpp$")
  foreach(source IN LISTS common)
    file(STRINGS ${source} mentions REGEX PLANWRIGHT_CUDA)
    if(mentions)
      list(REMOVE_ITEM common ${source})
      list(APPEND cpu ${source})
      list(APPEND cuda ${source})
    endif()
  endforeach()
  fill_empty(common)

  if(NOT pch)
    set(pch <ATen/ATen.h> <torch/csrc/autograd/custom_function.h> <torch/csrc/distributed/c10d/Backend.hpp>
        <nlohmann/json.hpp>)
  endif()

  add_library(worker_common OBJECT ${common})
  worker_target(worker_common USES ${arg_USES} LINKS ${arg_LINKS})
  target_precompile_headers(worker_common PRIVATE ${pch})
  # No value for the preprocessor: a header may not ask, nor a source that did not when this ran.
  set_source_files_properties(${common} PROPERTIES
      COMPILE_DEFINITIONS PLANWRIGHT_CUDA="not known here, see cmake/Worker.cmake")

  add_library(worker STATIC $<TARGET_OBJECTS:worker_common> ${cpu})
  worker_target(worker USES ${arg_USES} LINKS ${arg_LINKS})
  target_link_libraries(worker PUBLIC libtorch_cpu)
  target_precompile_headers(worker REUSE_FROM worker_common)
  if(main)
    add_executable(planwright-worker-cpu ${main})
    link_layers(planwright-worker-cpu PRIVATE USES worker)
    target_precompile_headers(planwright-worker-cpu REUSE_FROM worker_common)
    add_worker_variant(worker_on_cpu_time cpu_clock)
    add_worker_variant(worker_books_in_turns cpu_clock books_in_turns)
  endif()

  if(main AND build_cuda_worker)
    add_library(worker_cuda STATIC $<TARGET_OBJECTS:worker_common> ${cuda})
    worker_target(worker_cuda USES ${arg_USES} LINKS ${arg_LINKS})
    target_link_libraries(worker_cuda PUBLIC libtorch_cuda_headers libtorch_cuda)
    add_executable(planwright-worker-cuda ${main})
    link_layers(planwright-worker-cuda PRIVATE USES worker_cuda)
  endif()
endfunction()

# add_worker_variant(NAME SOURCE...): the CPU worker with parts of it replaced, for measurements:
# what tests/peers/SOURCE.cpp defines is not taken from the library. Built with the benchmarks.
function(add_worker_variant name)
  list(TRANSFORM ARGN REPLACE "(.+)" "${PROJECT_SOURCE_DIR}/tests/peers/\\1.cpp" OUTPUT_VARIABLE replacements)
  add_executable(${name} EXCLUDE_FROM_ALL ${main} ${replacements})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench)
  link_layers(${name} PRIVATE USES worker)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_precompile_headers(${name} REUSE_FROM worker_common)
  set_property(GLOBAL APPEND PROPERTY planwright_bench_programs ${name})
endfunction()

function(worker_target target)
  link_layers(${target} PUBLIC ${ARGN})
  target_link_libraries(${target} PUBLIC libtorch_headers)
  target_include_directories(${target} PUBLIC ${PROJECT_BINARY_DIR}/headers/worker)
  target_include_directories(${target} SYSTEM PUBLIC ${PROJECT_SOURCE_DIR}/probes/worker/gloo_shim)
  # The kernels are the thing that is measured, so they are optimised in every build; a square root
  # that may set errno would keep its loop from being vectorised.
  target_compile_options(${target} PUBLIC -O2 -fopenmp -fno-math-errno)
endfunction()
