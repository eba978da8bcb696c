#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/measured_rows.h"

namespace planwright::cli {

/// A cell that cannot be right beside another one of its row, and the rule that they break.
struct Contradiction {
  std::string_view column;
  std::string rule;
};

/// The first of a row whose cells can each be read; nullopt if they go together.
std::optional<Contradiction> contradiction(const MeasuredRow& row);

}  // namespace planwright::cli
