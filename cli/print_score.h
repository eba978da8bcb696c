#pragma once

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/row_score.h"

namespace planwright::cli {

/// One line's document.
Json score_json(const RowScore& score);

/// By origin: rows, how far predictions are off by kind of memory, how outcomes were judged, and
/// why rows were skipped.
std::string score_text(const std::vector<RowScore>& scores, const Paint& paint);

}  // namespace planwright::cli
