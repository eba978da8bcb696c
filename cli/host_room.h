#pragma once

#include <string>
#include <vector>

#include "cli/problem_input.h"

namespace planwright::cli {

/// An InputError where this host cannot carry the problem's CPU ranks: more threads each than it
/// has cores, or more ranks than its memory holds even before they have a tensor. Returns warnings:
/// of ranks that share cores. Devices other than CPUs pass.
std::vector<std::string> require_host_room(const Settings& settings, const ProblemInput& input);

}  // namespace planwright::cli
