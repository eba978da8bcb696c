#include "launcher/quote.h"

#include <fmt/core.h>

#include <array>
#include <cstdint>
#include <optional>

#include "estimator/spec/error.h"

namespace planwright::launcher {
namespace {

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

/// Bytes of a character that begins so; 0 if none does.
std::size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  if (first >= 0xF0 && first < 0xF5) return 4;
  return 0;
}

/// The character that `text` begins with; nullopt if that is not UTF-8 (RFC 3629).
std::optional<Character> first_of(std::string_view text) {
  constexpr std::array<std::uint32_t, 5> kLeast{0, 0, 0x80, 0x800, 0x10000};
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t bytes = length_of(byte(0));
  if (bytes == 0 || bytes > text.size()) return std::nullopt;
  std::uint32_t code = bytes == 1 ? byte(0) : byte(0) & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return std::nullopt;
    code = code << 6U | (byte(i) & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code < 0xE000;
  if (code < kLeast[bytes] || code > 0x10FFFF || surrogate) return std::nullopt;
  return Character{code, bytes};
}

/// Control characters, what some parsers take for a line's end, and what is not seen or turns what
/// is seen around (Unicode 15, Cc, Zl, Zp and the bidirectional marks).
bool is_hidden(std::uint32_t code) {
  const auto within = [&](std::uint32_t first, std::uint32_t last) {
    return code >= first && code <= last;
  };
  return code < 0x20 || within(0x7F, 0x9F) || within(0x200B, 0x200F) || within(0x2028, 0x202E) ||
         within(0x2066, 0x2069) || code == 0xFEFF || (code & 0xFFFEU) == 0xFFFE;
}

/// The escapes that YAML, TOML and Python have in common.
std::string escape(std::uint32_t code) {
  switch (code) {
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    case '\\':
      return "\\\\";
    case '"':
      return "\\\"";
    default:
      return code > 0xFFFF ? fmt::format("\\U{:08X}", code) : fmt::format("\\u{:04X}", code);
  }
}

std::string escaped(std::string_view text, bool inside_quotes) {
  std::string out;
  while (!text.empty()) {
    const auto character = first_of(text);
    if (!character) {
      throw InputError(
          {"", "text", std::string(out), "is followed by bytes that are not UTF-8", ""});
    }
    const bool syntax = inside_quotes && (character->code == '"' || character->code == '\\');
    if (syntax || is_hidden(character->code)) {
      out += escape(character->code);
    } else {
      out += text.substr(0, character->bytes);
    }
    text.remove_prefix(character->bytes);
  }
  return out;
}

}  // namespace

std::string in_quotes(std::string_view text) { return '"' + escaped(text, true) + '"'; }

std::string on_one_line(std::string_view text) { return escaped(text, false); }

std::string comment_lines(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += "# " + on_one_line(text) + "\n";
  return lines;
}

}  // namespace planwright::launcher
