#include "launcher/logs/number.h"

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>

namespace planwright::launcher {
namespace {

/// Longer ones are no figures of a training run.
constexpr std::size_t kMostDigits = 40;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - at;
}

/// A sign between groups of three digits: its kind (0: none) and length.
struct Separator {
  char kind = 0;
  std::size_t length = 0;
};

Separator separator_at(std::string_view text, std::size_t at) {
  if (at >= text.size()) return {};
  const char c = text[at];
  if (c == ',' || c == '.' || c == '\'' || c == '_') return {c, 1};
  const std::string_view rest = text.substr(at, 3);
  if (rest.substr(0, 2) == "\xC2\xA0") return {' ', 2};                   // U+00A0
  if (rest == "\xE2\x80\xAF" || rest == "\xE2\x80\x89") return {' ', 3};  // U+202F, U+2009
  return {};
}

/// The digits of a number as from_chars reads them.
class Plain {
 public:
  void add(std::string_view text) {
    for (const char c : text) add(c);
  }
  void add(char c) {
    if (size_ < text_.size()) text_[size_] = c;
    ++size_;
  }
  std::optional<double> value() const {
    if (size_ > text_.size()) return std::nullopt;
    double read = 0;
    const auto end = std::from_chars(text_.data(), text_.data() + size_, read);
    if (end.ec != std::errc() || end.ptr != text_.data() + size_) return std::nullopt;
    return read;
  }

 private:
  std::array<char, 2 * kMostDigits> text_;
  std::size_t size_ = 0;
};

bool three_digits_at(std::string_view text, std::size_t at) { return digits_at(text, at) == 3; }

/// Whether the one separator at `at`, behind `before` digits, begins a fraction and not a group.
bool begins_fraction(std::string_view text, std::size_t at, std::size_t before,
                     bool decimal_comma) {
  const char point = decimal_comma ? ',' : '.';
  if (text[at] == point) return true;
  const bool group = before <= 3 && three_digits_at(text, at + 1);
  const bool leading_zero = before == 1 && text[at - 1] == '0';
  return !group || leading_zero;
}

/// Whole groups of three behind the first `first` digits; where they end, and what parts them.
struct Groups {
  std::size_t end = 0;
  char kind = 0;
  int count = 0;
};

Groups groups_at(std::string_view text, std::size_t begin, std::size_t first) {
  Groups groups{begin + first, 0, 0};
  if (first == 0 || first > 3) return groups;
  while (true) {
    const Separator sign = separator_at(text, groups.end);
    if (sign.kind == 0 || (groups.kind != 0 && sign.kind != groups.kind)) return groups;
    if (!three_digits_at(text, groups.end + sign.length)) return groups;
    groups.kind = sign.kind;
    groups.end += sign.length + 3;
    ++groups.count;
  }
}

void add_digits(Plain& plain, std::string_view text) {
  for (const char c : text) {
    if (is_digit(c)) plain.add(c);
  }
}

/// One comma or point with three digits behind it may be either; of a second of its kind it is
/// known that it parts groups.
bool one_that_begins_fraction(std::string_view text, std::size_t first, std::size_t at,
                              const Groups& groups, bool decimal_comma) {
  if (groups.count != 1 || (groups.kind != ',' && groups.kind != '.')) return false;
  const Separator next = separator_at(text, groups.end);
  const bool fraction_follows = (next.kind == ',' || next.kind == '.') &&
                                next.kind != groups.kind && digits_at(text, groups.end + 1) > 0;
  return !fraction_follows && begins_fraction(text, at, first, decimal_comma);
}

/// Where the whole part ends.
std::size_t add_whole_part(Plain& plain, std::string_view text, std::size_t at, bool decimal_comma,
                           char& group_kind) {
  const std::size_t first = digits_at(text, at);
  const Groups groups = groups_at(text, at, first);
  const bool grouped =
      groups.count > 0 && !one_that_begins_fraction(text, first, at + first, groups, decimal_comma);
  const std::size_t end = grouped ? groups.end : at + first;
  group_kind = grouped ? groups.kind : '\0';
  add_digits(plain, text.substr(at, end - at));
  return end;
}

std::size_t add_fraction(Plain& plain, std::string_view text, std::size_t at, char group_kind) {
  if (at >= text.size() || (text[at] != '.' && text[at] != ',') || text[at] == group_kind)
    return at;
  const std::size_t count = digits_at(text, at + 1);
  if (count == 0) return at;  // a sentence ends, or a list goes on
  const bool list = text[at] == ',' && at + 1 + count < text.size() &&
                    text[at + 1 + count] == ',' && digits_at(text, at + 2 + count) > 0;
  if (list) return at;
  plain.add('.');
  plain.add(text.substr(at + 1, count));
  return at + 1 + count;
}

std::size_t add_exponent(Plain& plain, std::string_view text, std::size_t at) {
  if (at >= text.size() || (text[at] != 'e' && text[at] != 'E')) return at;
  std::size_t digits = at + 1;
  const bool sign = digits < text.size() && (text[digits] == '+' || text[digits] == '-');
  if (sign) ++digits;
  const std::size_t count = digits_at(text, digits);
  if (count == 0 || count > 4) return at;
  plain.add('e');
  if (sign) plain.add(text[digits - 1]);
  plain.add(text.substr(digits, count));
  return digits + count;
}

bool begins_with_letters(std::string_view text, std::string_view letters) {
  if (text.size() < letters.size()) return false;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    if ((text[i] | 0x20) != letters[i]) return false;
  }
  return true;
}

NumberInText no_finite_number(std::string_view text, std::size_t at, double sign) {
  const std::string_view rest = text.substr(at);
  if (begins_with_letters(rest, "nan")) {
    return {std::numeric_limits<double>::quiet_NaN(), at + 3};
  }
  for (const std::string_view word : {"infinity", "inf"}) {
    if (begins_with_letters(rest, word)) {
      return {sign * std::numeric_limits<double>::infinity(), at + word.size()};
    }
  }
  return {};
}

bool may_begin(char c) {
  const char lower = static_cast<char>(c | 0x20);
  return is_digit(c) || c == '-' || c == '+' || c == '.' || lower == 'n' || lower == 'i';
}

bool may_go_on(std::string_view text, std::size_t at) {
  if (at >= text.size()) return false;
  const bool digit_next = at + 1 < text.size() && is_digit(text[at + 1]);
  switch (text[at]) {
    case ',':
    case '.':
    case '\'':
      return digit_next;
    case '_':
    case 'e':
    case 'E':
    case '\xC2':
    case '\xE2':
      return true;
    default:
      return false;
  }
}

/// Adds the digits at `at` to those read before, and says where they end. Of more than 18 in all
/// some are lost.
std::size_t read_digits(std::string_view text, std::size_t at, std::int64_t& digits) {
  std::uint64_t read = static_cast<std::uint64_t>(digits);
  for (; at < text.size(); ++at) {
    const unsigned digit = static_cast<unsigned char>(text[at]) - unsigned{'0'};
    if (digit > 9) break;
    read = read * 10 + digit;
  }
  digits = static_cast<std::int64_t>(read);
  return at;
}

/// What nearly all numbers are, without copying: digits and perhaps a point and more. The quotient
/// of an integer below 2^53 and a power of ten up to 10^22 is rounded as from_chars would.
NumberInText plain_number(std::string_view text) {
  constexpr std::size_t kMost = 15;
  static constexpr std::array<double, kMost + 1> kPowers{
      1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};
  std::int64_t digits = 0;
  const std::size_t whole = read_digits(text, 0, digits);
  std::size_t at = whole;
  const bool point = at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1]);
  if (point) at = read_digits(text, at + 1, digits);
  const std::size_t fraction = point ? at - whole - 1 : 0;
  if (whole == 0 || whole + fraction > kMost || may_go_on(text, at)) return {};
  return {static_cast<double>(digits) / kPowers[fraction], at};
}

/// Any other. Not inlined, for what it needs on the stack would be set up for plain ones too.
[[gnu::noinline]] NumberInText other_number(std::string_view text, bool decimal_comma) {
  const bool negative = text[0] == '-';
  const double sign = negative ? -1 : 1;
  std::size_t at = negative || text[0] == '+' ? 1 : 0;
  const std::size_t digits = digits_at(text, at);
  if (digits > kMostDigits) return {};
  if (digits == 0 && (digits_at(text, at + 1) == 0 || text[at] != '.')) {
    return no_finite_number(text, at, sign);
  }
  Plain plain;
  if (digits == 0) plain.add('0');
  char group_kind = 0;
  at = add_whole_part(plain, text, at, decimal_comma, group_kind);
  at = add_fraction(plain, text, at, group_kind);
  at = add_exponent(plain, text, at);
  const auto value = plain.value();
  return value ? NumberInText{sign * *value, at} : NumberInText{};
}

}  // namespace

NumberInText number_at(std::string_view text, bool decimal_comma) {
  if (text.empty() || !may_begin(text[0])) return {};
  const NumberInText plain = decimal_comma ? NumberInText{} : plain_number(text);
  return plain.length > 0 ? plain : other_number(text, decimal_comma);
}

}  // namespace planwright::launcher
