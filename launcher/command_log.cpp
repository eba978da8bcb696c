#include "launcher/command_log.h"

#include <utility>

#include "estimator/spec/error.h"
#include "estimator/spec/text_file.h"
#include "launcher/group_protocol.h"

namespace planwright::launcher {
namespace {

std::string text_of(const std::string& path) {
  try {
    return read_file(path);
  } catch (const WorldError&) {
    return "";
  }
}

/// The line that stands for what was left out, with the newlines about it; empty if all is there.
std::string_view gap_mark(std::string_view text) {
  if (text.size() <= kLogHead) return {};
  const std::string_view behind = text.substr(kLogHead);
  const std::size_t end = behind.find(kLeftOut);
  const std::string_view number = behind.substr(0, end);
  const bool is_mark = end != behind.npos && number.substr(0, 2) == "\n[" &&
                       number.find_first_not_of("0123456789", 2) == number.npos;
  return is_mark ? behind.substr(0, end + kLeftOut.size()) : std::string_view{};
}

}  // namespace

LogSummary read_command_log(const std::string& path, std::string_view tail, LogReader reader) {
  const std::string file = text_of(path);
  const std::string_view text = file.empty() ? tail : std::string_view(file);
  const std::string_view mark = gap_mark(text);
  reader.append(text.substr(0, kLogHead));
  if (!mark.empty()) reader.gap();
  if (text.size() > kLogHead) reader.append(text.substr(kLogHead + mark.size()));
  return reader.finish();
}

}  // namespace planwright::launcher
