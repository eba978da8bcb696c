#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/console.h"
#include "estimator/spec/problem.h"

namespace planwright::cli {

enum class Align { left, right };

struct Column {
  std::string title;
  Align align = Align::left;
};

/// Rows under a heading, columns as wide as their widest cell, two blanks apart. A row may be
/// shorter than the heading. No blanks at the end of a line. "(none)" where there are no rows.
std::string table_text(const std::vector<Column>& columns,
                       const std::vector<std::vector<std::string>>& rows, const Paint& paint);

/// "12.34": GiB (2^30 bytes), two decimals; four where the largest figure of the column, `scale`,
/// is below 1 GiB.
std::string gib_text(Bytes bytes, Bytes scale);
inline std::string gib_text(Bytes bytes) { return gib_text(bytes, bytes); }
constexpr const char* kNotKnown = "not known";
/// The same of a measured peak; "not known" if nobody measured it.
std::string peak_text(Bytes peak, Bytes scale);
inline std::string peak_text(Bytes peak) { return peak_text(peak, peak); }
/// "820.1": milliseconds, one decimal; more where there would be fewer than three digits.
std::string ms_text(Seconds seconds);
/// "12345": tokens per second; "0.12" and the like below 10.
std::string rate_text(double per_second);
constexpr std::string_view kTokenRate = "tokens/s/device";
/// What rates of the problem count: sequences, where nobody said how long one is.
std::string_view rate_unit(const Problem& problem);
/// "1 candidate", "2 candidates".
std::string counted(std::int64_t count, std::string_view noun);
/// Those that are more than 0, the largest first.
std::vector<std::pair<std::string, std::int64_t>> most_first(
    const std::map<std::string, std::int64_t>& counts);

}  // namespace planwright::cli
