#include "cli/console.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>

namespace planwright::cli {
namespace {

bool is_terminal(std::FILE* stream) { return isatty(fileno(stream)) == 1; }

/// Goes back to the line's begin and deletes it (ECMA-48).
constexpr std::string_view kClearLine = "\r\x1b[2K";

/// Columns of the terminal on stderr; 80 if it does not say.
std::size_t terminal_width() {
  winsize size{};
  if (ioctl(fileno(stderr), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void write(std::FILE* stream, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stream);
}

}  // namespace

std::string Paint::wrap(const char* code, std::string_view text) const {
  return on_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : std::string(text);
}

bool wants_color(ColorChoice choice, bool terminal, const char* no_color) {
  if (choice != ColorChoice::automatic) return choice == ColorChoice::always;
  return terminal && (no_color == nullptr || *no_color == '\0');
}

Console::Console(const CommonFlags& flags)
    : flags_(flags),
      live_(is_terminal(stderr) && !flags.quiet),
      result_paint_(wants_color(flags.color, is_terminal(stdout), std::getenv("NO_COLOR"))),
      story_paint_(wants_color(flags.color, is_terminal(stderr), std::getenv("NO_COLOR"))) {}

void Console::print(std::string_view text) const {
  if (flags_.json) return;
  live("");
  write(stdout, text);
  std::fflush(stdout);
}

void Console::print_json(const Json& json) const {
  if (!flags_.json) return;
  write(stdout, json_text(json));
  std::fflush(stdout);
}

void Console::story(std::string_view line) const {
  if (flags_.quiet) return;
  live("");
  write(stderr, fmt::format("{}\n", line));
}

void Console::detail(std::string_view line) const {
  if (flags_.verbose) story(story_paint_.dim(line));
}

void Console::warning(std::string_view text) const {
  story(fmt::format("{} {}", story_paint_.doubtful("warning:"), text));
}

void Console::warnings(const std::vector<std::string>& texts) const {
  for (const std::string& text : texts) warning(text);
}

void Console::failure(std::string_view text) const {
  live("");
  write(stderr, fmt::format("planwright: {}\n", text));
}

void Console::live(std::string_view line) const {
  if (!live_) return;
  write(stderr, kClearLine);
  write(stderr, line.substr(0, std::min(line.size(), terminal_width() - 1)));
  std::fflush(stderr);
}

std::string json_text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace planwright::cli
