#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "estimator/spec/json.h"

namespace planwright::cli {

/// Colour for a person's eyes, or nothing.
class Paint {
 public:
  explicit Paint(bool on = false) : on_(on) {}
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string bad(std::string_view text) const { return wrap("31", text); }
  std::string doubtful(std::string_view text) const { return wrap("33", text); }

 private:
  std::string wrap(const char* code, std::string_view text) const;
  bool on_;
};

/// `choice` is what --color says; `auto` asks whether the stream is a terminal, and NO_COLOR, if it
/// is set to anything, says no (https://no-color.org).
bool wants_color(ColorChoice choice, bool terminal, const char* no_color);

/// The two streams of a command: the result goes to stdout, the story to stderr.
class Console {
 public:
  explicit Console(const CommonFlags& flags);

  /// The result for people; with --json nothing.
  void print(std::string_view text) const;
  /// The result for machines, one line; without --json nothing.
  void print_json(const Json& json) const;

  void story(std::string_view line) const;    ///< unless --quiet
  void detail(std::string_view line) const;   ///< with --verbose
  void warning(std::string_view text) const;  ///< unless --quiet
  void warnings(const std::vector<std::string>& texts) const;
  void failure(std::string_view text) const;  ///< always: why there is no result
  /// Replaces the live line of a terminal's stderr; nothing elsewhere. Empty: clears it.
  void live(std::string_view line) const;

  bool json() const { return flags_.json; }
  const Paint& result_paint() const { return result_paint_; }
  const Paint& story_paint() const { return story_paint_; }

 private:
  CommonFlags flags_;
  bool live_ = false;
  Paint result_paint_;
  Paint story_paint_;
};

/// The same text that print_json writes.
std::string json_text(const Json& json);

}  // namespace planwright::cli
