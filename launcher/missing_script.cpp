#include "launcher/missing_script.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "launcher/placeholders.h"

namespace planwright::launcher {
namespace {

namespace fs = std::filesystem;

bool is_script(std::string_view word) { return word.ends_with(".py"); }

/// `python3.11`, `/opt/venv/bin/torchrun`. What others do with a word is their own affair.
bool starts_scripts(const std::string& word) {
  constexpr std::string_view kStarters[] = {"python", "torchrun", "deepspeed", "accelerate"};
  const std::string program = fs::path(word).filename().string();
  return std::any_of(std::begin(kStarters), std::end(kStarters),
                     [&](std::string_view starter) { return program.starts_with(starter); });
}

/// What follows is a module, a program's text or a program.
bool wants_no_script(std::string_view word) {
  constexpr std::string_view kOptions[] = {"-m", "-c", "--module", "--no-python", "--no_python"};
  return std::find(std::begin(kOptions), std::end(kOptions), word) != std::end(kOptions);
}

std::vector<std::string> path_folders(const std::map<std::string, std::string>& environment) {
  const auto given = environment.find("PATH");
  const char* own = std::getenv("PATH");
  std::istringstream path(given != environment.end() ? given->second : own == nullptr ? "" : own);
  std::vector<std::string> folders;
  for (std::string folder; std::getline(path, folder, ':');) {
    if (!folder.empty()) folders.push_back(folder);
  }
  return folders;
}

}  // namespace

std::optional<std::string> missing_script(const UserCommand& user) {
  const auto& words = user.words;
  if (words.empty() || !(is_script(words.front()) || starts_scripts(words.front()))) return {};
  const auto found = std::find_if(words.begin(), words.end(), [](const std::string& word) {
    return is_script(word) || wants_no_script(word);
  });
  if (found == words.end() || !is_script(*found) || !placeholders_in(*found).empty()) return {};
  std::error_code unreadable;
  if (fs::exists(*found, unreadable)) return {};
  return *found;
}

std::optional<std::string> find_program(const std::string& program,
                                        const std::map<std::string, std::string>& environment) {
  if (program.find('/') != std::string::npos) return program;
  for (const std::string& folder : path_folders(environment)) {
    std::string candidate = (fs::path(folder) / program).string();
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

std::vector<std::string> programs_in_path(const std::map<std::string, std::string>& environment) {
  std::vector<std::string> programs;
  for (const std::string& folder : path_folders(environment)) {
    std::error_code error;
    for (fs::directory_iterator each(folder, error), end; !error && each != end;
         each.increment(error)) {
      programs.push_back(each->path().filename().string());
    }
  }
  std::sort(programs.begin(), programs.end());
  programs.erase(std::unique(programs.begin(), programs.end()), programs.end());
  return programs;
}

}  // namespace planwright::launcher
