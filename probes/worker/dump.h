#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "estimator/spec/flat_layout.h"

namespace planwright::worker {

/// Writes `first`, if there is one, and then every tensor of the flat buffer times `factor` in
/// forward order, padding left out, as native doubles. Throws std::runtime_error if the file cannot
/// be written.
void dump_flat(const std::string& path, const at::Tensor& flat, const FlatLayout& layout,
               std::optional<double> first = std::nullopt, double factor = 1);

}  // namespace planwright::worker
