# add_observer(FOLDER <folder>): what a launcher puts first on PYTHONPATH, in bin/observer beside the
# programs, and within it the counting allocator for the pinned libtorch. Without that library, as in
# a planner without the worker, the observer tells what a process takes instead.
function(add_observer)
  cmake_parse_arguments(arg "" "FOLDER" "" ${ARGN})
  set(from ${PROJECT_SOURCE_DIR}/${arg_FOLDER})
  set(to ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/observer)
  file(GLOB_RECURSE modules RELATIVE ${from} CONFIGURE_DEPENDS ${from}/*.py)
  foreach(module IN LISTS modules)
    configure_file(${from}/${module} ${to}/${module} COPYONLY)
  endforeach()

  collect(counting_allocator FOLDER ${arg_FOLDER} LINKS torch)
  # Python could not load it instrumented.
  if(NOT PLANWRIGHT_WORKER OR PLANWRIGHT_SANITIZE)
    return()
  endif()
  add_library(counting_allocator MODULE ${sources})
  target_link_libraries(counting_allocator PRIVATE libtorch_headers ${torch}/lib/libc10.so planwright_flags)
  # No path to a libc10: it is to find the one that the process has loaded.
  set_target_properties(counting_allocator PROPERTIES SKIP_BUILD_RPATH ON PREFIX ""
      OUTPUT_NAME counting_allocator-${PLANWRIGHT_TORCH_VERSION} LIBRARY_OUTPUT_DIRECTORY ${to}/planwright_observer)
endfunction()

# One test per file tests/observer/test_*.py, with plain Python: no torch.
function(add_observer_tests)
  cmake_parse_arguments(arg "" "FOLDER" "" ${ARGN})
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${arg_FOLDER}/test_*.py)
  foreach(file IN LISTS files)
    cmake_path(GET file STEM stem)
    string(REPLACE "test_" "observer." name ${stem})
    add_test(NAME ${name} COMMAND Python3::Interpreter -B ${file} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/${arg_FOLDER})
    set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT 120
        ENVIRONMENT PLANWRIGHT_OBSERVER_FOLDER=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/observer)
  endforeach()
endfunction()
