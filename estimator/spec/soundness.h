#pragma once

#include <cstdint>
#include <string>

#include "estimator/spec/problem.h"

/// Whether a value that came from outside can be computed with at all: every count that must be
/// there is, none is so large that bytes or operations overflow, and rates are finite and not
/// negative. Types alone do not say that. Each throws an InputError that names `source` and the
/// key.
namespace planwright {

constexpr std::int64_t kMostLayers = 4096;  ///< the deepest published has 1000: arXiv:2203.00555
/// Of any size: no published one comes near; what is beyond is a slip of the pen, and would
/// overflow.
constexpr std::int64_t kMostSize = std::int64_t{1} << 40;

/// A model of at most 2^50 parameters.
void require_countable(const ModelSpec& model, const std::string& source);

/// A problem as somebody wrote it in a file.
void require_sound(const Problem& problem, const std::string& source);

}  // namespace planwright
