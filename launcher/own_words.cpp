#include "launcher/own_words.h"

#include <algorithm>
#include <cctype>

#include "launcher/logs/line_text.h"

namespace planwright::launcher {
namespace {

constexpr std::size_t kLongestWords = 1000;
constexpr std::string_view kTraceback = "Traceback (most recent call last):";

// Sources: pytorch/pytorch torch/distributed/elastic/multiprocessing/api.py and
// torch/distributed/launcher/api.py @ 2.1 to 2.11; the scripts named launch.py of launchers that
// start a process per rank @ 2026; srun(1).
constexpr std::string_view kReports[] = {
    "failed (exitcode: ",
    "closing signal SIGTERM",
    "torch/distributed/launcher/api.py\"",
    "commands/launch.py\", line",
    "] Killing subprocess ",
    "exits with return code = ",
    "srun: error: ",
};

std::size_t begin_of_line(std::string_view log, std::size_t at) {
  const std::size_t before = log.substr(0, at).rfind('\n');
  return before == log.npos ? 0 : before + 1;
}

/// A frame is in a report as of the line that begins its traceback.
std::size_t begin_of_report(std::string_view log, std::size_t mark) {
  const std::size_t line = begin_of_line(log, mark);
  const bool frame = split_rank(log.substr(line)).text.substr(0, 7) == "  File ";
  const std::size_t traceback = frame ? log.substr(0, line).rfind(kTraceback) : log.npos;
  return traceback == log.npos ? line : begin_of_line(log, traceback);
}

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Of a traceback, whose last line alone says something.
bool is_frame(std::string_view text) { return text[0] == ' ' || text == kTraceback; }

/// "W1231 09:00:00.0 42 torch/distributed/run.py:851] ", a header of torch's, in brackets or not;
/// or one of a launcher's own lines.
bool is_notice(std::string_view text) {
  if (text.find("] [launch.py:") != text.npos) return true;
  if (text.substr(0, 1) == "[") text.remove_prefix(1);
  const bool level = text.size() > 5 && (text[0] == 'W' || text[0] == 'I') && text[5] == ' ';
  return level && std::all_of(text.begin() + 1, text.begin() + 5, is_digit);
}

/// What a terminal shows of it in the end: a progress bar draws its line anew behind each \r.
std::string_view shown(std::string_view line) {
  line = line.substr(0, line.find_last_not_of('\r') + 1);
  return line.substr(line.rfind('\r') + 1);
}

struct Words {
  std::string_view last, refusal;
  bool usage = false;  ///< what argparse prints before it refuses
};

Words words_in(std::string_view text) {
  Words words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = split_rank(shown(text.substr(0, end))).text;
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.find_first_not_of(" \t\r") == line.npos) continue;
    if (is_notice(line) || is_frame(line)) continue;
    words.last = line;
    words.usage = words.usage || line.substr(0, 7) == "usage: ";
    if (words.usage && line.find(": error: ") != line.npos) words.refusal = line;
  }
  return words;
}

}  // namespace

std::string_view before_report(std::string_view log) {
  std::size_t begin = log.size();
  for (const std::string_view report : kReports) {
    const std::size_t mark = log.find(report);
    if (mark != log.npos) begin = std::min(begin, begin_of_report(log, mark));
  }
  return log.substr(0, begin);
}

std::string own_words(std::string_view log) {
  const Words words = words_in(before_report(log));
  const std::string_view said = words.refusal.empty() ? words.last : words.refusal;
  std::string storage;
  return printable(without_escapes(said, storage), kLongestWords);
}

bool is_of_report(std::string_view line, std::string_view log) {
  const std::string_view own = before_report(log);
  return own.find(line) == own.npos && log.substr(own.size()).find(line) != log.npos;
}

}  // namespace planwright::launcher
