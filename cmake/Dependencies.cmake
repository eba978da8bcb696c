# third_party(<key> TARGET <cmake target> HEADERS <prefix>...): the keys are what LINKS and HIDES of
# a layer name; the prefixes tell the layering test whose header an #include <...> is.
function(third_party key)
  cmake_parse_arguments(arg "" "TARGET" "HEADERS" ${ARGN})
  add_library(third_party_${key} INTERFACE)
  target_link_libraries(third_party_${key} INTERFACE ${arg_TARGET})
  string(JOIN "," headers ${arg_HEADERS})
  set_property(GLOBAL APPEND PROPERTY planwright_table "third_party|${key}|${headers}")
endfunction()

foreach(package fmt nlohmann_json cxxopts tomlplusplus yaml-cpp Eigen3 SQLite3 SQLiteCpp GTest benchmark)
  find_package(${package} REQUIRED)
endforeach()

# Of Ceres only the header-only TinySolver is used; find_package(Ceres) would bring the whole solver.
find_path(CERES_INCLUDE_DIR ceres/tiny_solver.h REQUIRED)
add_library(ceres_headers INTERFACE)
target_include_directories(ceres_headers SYSTEM INTERFACE ${CERES_INCLUDE_DIR})
target_link_libraries(ceres_headers INTERFACE Eigen3::Eigen)

third_party(fmt       TARGET fmt::fmt                     HEADERS fmt/)
third_party(json      TARGET nlohmann_json::nlohmann_json HEADERS nlohmann/)
third_party(cxxopts   TARGET cxxopts::cxxopts             HEADERS cxxopts.hpp)
third_party(toml      TARGET tomlplusplus::tomlplusplus   HEADERS toml++/)
third_party(yaml      TARGET yaml-cpp                     HEADERS yaml-cpp/)
third_party(eigen     TARGET Eigen3::Eigen                HEADERS Eigen/)
third_party(ceres     TARGET ceres_headers                HEADERS ceres/)
third_party(sqlite    TARGET SQLiteCpp                    HEADERS SQLiteCpp/ sqlite3.h)
third_party(dl        TARGET ${CMAKE_DL_LIBS})
third_party(gtest     TARGET GTest::gmock                 HEADERS gtest/ gmock/)
third_party(benchmark TARGET benchmark::benchmark         HEADERS benchmark/)
third_party(torch     TARGET ""                           HEADERS torch/ ATen/ c10/ gloo/ nccl.h cuda)
