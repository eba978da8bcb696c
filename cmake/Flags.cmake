set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)
set_property(GLOBAL PROPERTY GLOBAL_DEPENDS_NO_CYCLES ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

find_program(CCACHE ccache)
if(CCACHE)
  # ccache refuses precompiled headers without the sloppiness, and takes another clone of the same
  # sources for something else without the rest.
  set(CMAKE_CXX_COMPILER_LAUNCHER env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()

# Linked PRIVATE by everything of ours and by nothing else.
add_library(planwright_flags INTERFACE)
target_compile_options(planwright_flags INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 sees an overlapping copy in "text" + std::string at -O2 (its bug 105329).
  target_compile_options(planwright_flags INTERFACE -Wno-restrict)
endif()
if(PLANWRIGHT_SANITIZE)
  # GCC 12 sees uninitialised variables in instrumented libstdc++ where there are none.
  target_compile_options(planwright_flags INTERFACE -fsanitize=${PLANWRIGHT_SANITIZE}
      -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(planwright_flags INTERFACE -fsanitize=${PLANWRIGHT_SANITIZE})
endif()
