#include "launcher/logs/line_text.h"

#include <algorithm>
#include <cstdint>

#include "estimator/spec/utf8.h"

namespace planwright::launcher {
namespace {

constexpr char kEscape = '\x1b';
constexpr int kMostRankDigits = 6;
constexpr std::size_t kLongestGroup = 200;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Behind the escape sequence that begins at `at`.
std::size_t behind_escape(std::string_view line, std::size_t at) {
  if (at + 1 >= line.size()) return line.size();
  const char kind = line[at + 1];
  std::size_t end = at + 2;
  if (kind == '[') {  // control sequence: parameters, then one final byte
    while (end < line.size() && (line[end] < '@' || line[end] > '~')) ++end;
    return std::min(end + 1, line.size());
  }
  if (kind == ']') {  // operating system command: up to BEL or ESC backslash
    while (end < line.size() && line[end] != '\a' && line[end] != kEscape) ++end;
    if (end < line.size() && line[end] == kEscape) ++end;
    return std::min(end + 1, line.size());
  }
  if (kind == '(' || kind == ')') return std::min(at + 3, line.size());  // character set
  return end;
}

/// The rank in the digits at the end of `text`; nullopt if there are none or too many.
std::optional<int> number_at_end(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0 && is_digit(text[begin - 1])) --begin;
  const std::size_t digits = text.size() - begin;
  if (digits == 0 || digits > kMostRankDigits) return std::nullopt;
  int rank = 0;
  for (const char c : text.substr(begin)) rank = rank * 10 + (c - '0');
  return rank;
}

bool begins_with_rank(std::string_view text) {
  return text.size() > 4 && (text[0] == 'r' || text[0] == 'R') && text.substr(1, 3) == "ank";
}

struct Prefix {
  std::optional<int> rank;
  bool global = false;
  std::size_t length = 0;  ///< 0: none
};

/// `[name1]:`, with a name of letters, or none.
Prefix named_prefix(std::string_view inside, std::string_view behind, std::size_t length) {
  if (behind.substr(0, 1) != ":") return {};
  const auto end = std::find_if(inside.begin(), inside.end(), is_digit);
  const bool name = std::all_of(
      inside.begin(), end, [](char c) { return is_letter(c) || c == '_' || c == '-' || c == ' '; });
  const bool digits = end != inside.end() && std::all_of(end, inside.end(), is_digit);
  if (!name || !digits) return {};
  const bool global = begins_with_rank(inside) || is_digit(inside[0]);
  return {number_at_end(inside), global, length + 1};
}

/// `[1,2]<stdout>:`, where 2 is the rank.
Prefix tagged_prefix(std::string_view inside, std::string_view behind, std::size_t length) {
  const std::size_t end = behind.find(">:");
  if (behind.substr(0, 1) != "<" || end == behind.npos || end > 8) return {};
  const std::size_t comma = inside.find(',');
  if (comma == inside.npos) return {};
  const auto rank = number_at_end(inside);
  const bool digits =
      std::all_of(inside.begin() + static_cast<std::ptrdiff_t>(comma) + 1, inside.end(), is_digit);
  if (!rank || !digits) return {};
  return {rank, true, length + end + 2};
}

/// `  1: `.
Prefix labelled_prefix(std::string_view line) {
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  std::size_t end = begin;
  while (end < line.size() && is_digit(line[end])) ++end;
  const bool label = end > begin && end - begin <= kMostRankDigits && line.substr(end, 1) == ":" &&
                     (end + 1 == line.size() || line[end + 1] == ' ');
  if (!label) return {};
  return {number_at_end(line.substr(begin, end - begin)), true, end + 1};
}

Prefix prefix_of(std::string_view line) {
  if (line.empty() || line[0] != '[') return labelled_prefix(line);
  const std::size_t end = line.substr(0, kLongestGroup).find(']');
  if (end == line.npos) return {};
  const std::string_view inside = line.substr(1, end - 1), behind = line.substr(end + 1);
  const Prefix named = named_prefix(inside, behind, end + 1);
  return named.length > 0 ? named : tagged_prefix(inside, behind, end + 1);
}

/// The rank in `[Rank 1]`, behind other groups in brackets.
std::optional<int> rank_among_groups(std::string_view line) {
  for (int group = 0; group < 5; ++group) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty() || line[0] != '[') return std::nullopt;
    const std::size_t end = line.substr(0, kLongestGroup).find(']');
    if (end == line.npos) return std::nullopt;
    const std::string_view inside = line.substr(1, end - 1);
    if (begins_with_rank(inside) && inside[4] == ' ' &&
        std::all_of(inside.begin() + 5, inside.end(), is_digit)) {
      return number_at_end(inside);
    }
    line.remove_prefix(end + 1);
  }
  return std::nullopt;
}

}  // namespace

std::string_view without_escapes(std::string_view line, std::string& storage) {
  std::size_t escape = line.find(kEscape);
  if (escape == line.npos) return line;
  storage.clear();
  std::size_t at = 0;
  while (escape != line.npos) {
    storage += line.substr(at, escape - at);
    at = behind_escape(line, escape);
    escape = line.find(kEscape, at);
  }
  storage += line.substr(at);
  return storage;
}

std::string printable(std::string_view line, std::size_t limit) {
  std::string text;
  while (!line.empty()) {
    const std::size_t length = utf8_length(line);
    const bool control =
        length == 1 && (static_cast<std::uint8_t>(line[0]) < ' ' || line[0] == 0x7F);
    const std::string_view shown = line[0] == '\t'          ? " "
                                   : length == 0 || control ? kReplacement
                                                            : line.substr(0, length);
    if (text.size() + shown.size() > limit) break;
    if (!text.empty() || shown != " ") text += shown;
    line.remove_prefix(std::max<std::size_t>(length, 1));
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

RankedLine split_rank(std::string_view line) {
  RankedLine ranked{std::nullopt, line};
  bool global = false;
  for (int prefixes = 0; prefixes < 3; ++prefixes) {
    const Prefix prefix = prefix_of(ranked.text);
    if (prefix.length == 0) break;
    if (prefix.rank && (prefix.global || !global)) ranked.rank = prefix.rank;
    global = global || prefix.global;
    ranked.text.remove_prefix(prefix.length);
    if (!ranked.text.empty() && ranked.text[0] == ' ') ranked.text.remove_prefix(1);
  }
  if (const auto rank = rank_among_groups(ranked.text)) ranked.rank = rank;
  return ranked;
}

}  // namespace planwright::launcher
