# The layer `version`: planwright_version.h and its generated source. Run as a script (cmake -P) at
# each build, this file writes that source, and touches it only when something changed.
if(CMAKE_SCRIPT_MODE_FILE)
  set(revision "$Format:%h$")  # filled in by `git archive`
  if(revision MATCHES "Format")
    set(revision unknown)
    if(EXISTS ${SOURCE_DIR}/.git)
      execute_process(COMMAND git -C ${SOURCE_DIR} describe --always --dirty --exclude=*
          OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
      if(NOT failed)
        set(revision ${described})
      endif()
    endif()
  endif()
  file(CONFIGURE OUTPUT ${OUTPUT} CONTENT [[
#include "planwright_version.h"

namespace planwright {

const char* const kVersion = "@VERSION@";
const char* const kGitRevision = "@revision@";
const char* const kTorchVersion = "@TORCH@";
const char* const kCudaVersion = "@CUDA@";
const char* const kNcclVersion = "@NCCL@";

}  // namespace planwright
]] @ONLY)
  return()
endif()

function(add_version)
  foreach(part TORCH CUDA NCCL)
    if(NOT PLANWRIGHT_WORKER OR NOT PLANWRIGHT_${part}_VERSION)
      set(PLANWRIGHT_${part}_VERSION none)
    endif()
  endforeach()
  set(output ${PROJECT_BINARY_DIR}/generated/planwright_version.cpp)
  add_custom_target(write_version BYPRODUCTS ${output}
      COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DOUTPUT=${output} -DVERSION=${PROJECT_VERSION}
              -DTORCH=${PLANWRIGHT_TORCH_VERSION} -DCUDA=${PLANWRIGHT_CUDA_VERSION} -DNCCL=${PLANWRIGHT_NCCL_VERSION}
              -P ${PROJECT_SOURCE_DIR}/cmake/Version.cmake
      COMMENT "Reading the git revision")
  add_library(version STATIC ${output})
  add_dependencies(version write_version)
  target_link_libraries(version PRIVATE planwright_flags)
  target_include_directories(version PUBLIC ${PROJECT_BINARY_DIR}/headers/version)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/headers/version)
  file(CREATE_LINK ${PROJECT_SOURCE_DIR}/cmake/planwright_version.h
      ${PROJECT_BINARY_DIR}/headers/version/planwright_version.h SYMBOLIC)
  set_property(GLOBAL APPEND PROPERTY planwright_layers version)
endfunction()
