#include "launcher/shell.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "launcher/quote.h"

namespace planwright::launcher {
namespace {

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=+,%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char each : word) text += each == '\'' ? "'\\''" : std::string(1, each);
  return text + "'";
}

constexpr const char* kHere = "\"$here\"";  ///< in a script: its own folder
constexpr const char* kFindHere = "here=$(CDPATH= cd -- \"$(dirname -- \"$0\")\" && pwd) || exit\n";

/// Slurm's sbatch: its copy of a batch script lies in a folder of the daemon.
std::string neighbour_line(const std::string& name) {
  if (name.empty()) return "";
  return fmt::format(
      "[ -e {0}/{1} ] || {{ echo \"$0: is a copy without {1} beside it; run the script itself "
      "(under "
      "Slurm: sbatch --wrap=/path/to/it)\" >&2; exit 1; }}\n",
      kHere, name);
}

std::string start_line(const std::string& folder) {
  if (folder.empty()) return "";
  if (folder == ".") return fmt::format("cd -- {} || exit\n", kHere);
  if (folder.front() == '/') return fmt::format("cd -- {} || exit\n", shell_word(folder));
  return fmt::format("cd -- {}/{} || exit\n", kHere, shell_word(folder));
}

/// The word with what is beside the script as `"$here"/name`.
std::string script_word(const std::string& word, const ScriptPaths& paths) {
  const std::size_t equals = word.find('=');
  for (const std::size_t begin : {std::size_t{0}, equals == word.npos ? 0 : equals + 1}) {
    const std::string path = word.substr(begin);
    if (std::find(paths.beside.begin(), paths.beside.end(), path) == paths.beside.end()) continue;
    const std::string name = std::filesystem::path(path).filename().string();
    return (begin == 0 ? "" : shell_word(word.substr(0, begin))) + kHere +
           (name.empty() ? "" : "/" + shell_word(name));
  }
  return shell_word(word);
}

/// Reads words one character after the other.
class WordReader {
 public:
  explicit WordReader(std::string_view text) : text_(text) {}

  /// Null behind the last; false in `closed` if the text ends within a word's quotes.
  std::optional<std::string> next(bool& closed) {
    constexpr std::string_view kBlanks = " \t\n";
    at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size());
    if (at_ == text_.size()) return std::nullopt;
    std::string word;
    while (closed && at_ < text_.size() && kBlanks.find(text_[at_]) == kBlanks.npos) {
      const char each = text_[at_++];
      if (each == '\'') {
        closed = single_quoted(word);
      } else if (each == '"') {
        closed = double_quoted(word);
      } else if (each == '\\') {
        closed = escaped(word, "");
      } else {
        word += each;
      }
    }
    return word;
  }

 private:
  bool single_quoted(std::string& word) {
    const std::size_t end = text_.find('\'', at_);
    if (end == text_.npos) return false;
    word += text_.substr(at_, end - at_);
    at_ = end + 1;
    return true;
  }

  bool double_quoted(std::string& word) {
    while (at_ < text_.size()) {
      const char each = text_[at_++];
      if (each == '"') return true;
      if (each != '\\') {
        word += each;
      } else if (!escaped(word, "$`\"\\\n")) {
        return false;
      }
    }
    return false;
  }

  /// What follows a backslash, which stays before all but `special`, if there are any.
  bool escaped(std::string& word, std::string_view special) {
    if (at_ == text_.size()) return false;
    const char each = text_[at_++];
    if (!special.empty() && special.find(each) == special.npos) word += '\\';
    if (each != '\n') word += each;
    return true;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<std::string>> shell_words(std::string_view text) {
  WordReader reader(text);
  std::vector<std::string> words;
  bool closed = true;
  while (std::optional<std::string> word = reader.next(closed)) {
    if (!closed) return std::nullopt;
    words.push_back(*std::move(word));
  }
  return words;
}

std::string shell_line(const std::vector<std::string>& argv,
                       const std::map<std::string, std::string>& environment) {
  std::string line;
  for (const auto& [name, value] : environment) line += name + "=" + shell_word(value) + " ";
  for (const std::string& word : argv) line += shell_word(word) + " ";
  if (!line.empty()) line.pop_back();
  return line;
}

std::string shell_script(const std::vector<std::string>& comments,
                         const std::vector<std::string>& argv,
                         const std::map<std::string, std::string>& environment,
                         const ScriptPaths& paths) {
  std::string text = "#!/bin/sh\n" + comment_lines(comments);
  if (!paths.start.empty() || !paths.beside.empty()) {
    text += kFindHere + neighbour_line(paths.neighbour) + start_line(paths.start);
  }
  for (const auto& [name, value] : environment) {
    text += "export " + name + "=" + script_word(value, paths) + "\n";
  }
  text += "exec";
  for (const std::string& word : argv) text += " " + script_word(word, paths);
  return text + "\n";
}

}  // namespace planwright::launcher
