#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "command.h"
#include "golden.h"

/// docs/memory-model.md explains ledgers line by line: each is what the command above it prints.
namespace planwright::testing {
namespace {

const char* const kFence = "```console\n";
const char* const kPrompt = "$ planwright ";

/// The command's words without the line's breaks, and where its output begins.
struct Printed {
  std::string command;
  std::size_t output = 0, end = 0;
};

Printed printed_at(const std::string& text, std::size_t fence) {
  Printed printed;
  std::size_t at = fence + std::string(kFence).size();
  EXPECT_EQ(text.compare(at, std::string(kPrompt).size(), kPrompt), 0) << text.substr(at, 80);
  bool more = true;
  while (more) {
    const std::size_t line_end = text.find('\n', at);
    std::string line = text.substr(at, line_end - at);
    more = line.ends_with('\\');
    if (more) line.pop_back();
    printed.command += line + " ";
    at = line_end + 1;
  }
  printed.command.erase(0, std::string(kPrompt).size());
  printed.output = at;
  printed.end = text.find("```", at);
  return printed;
}

TEST(MemoryModelPage, ShowsWhatTheCommandsPrint) {
  const TestFolder folder;
  const std::string path = PLANWRIGHT_SOURCE_DIR "/docs/memory-model.md";
  std::string text = file_text(path);
  int ledgers = 0;
  for (std::size_t at = 0; (at = text.find(kFence, at)) != std::string::npos; ++ledgers) {
    const Printed printed = printed_at(text, at);
    const CommandResult result = run_command({folder.path()}, words(printed.command));
    EXPECT_EQ(result.code, 0) << printed.command << result.err;
    if (std::getenv("PLANWRIGHT_REGENERATE") == nullptr) {
      EXPECT_EQ(text.substr(printed.output, printed.end - printed.output), result.out)
          << printed.command;
    } else {
      text.replace(printed.output, printed.end - printed.output, result.out);
    }
    at = text.find("```", printed.output) + 3;
  }
  EXPECT_EQ(ledgers, 5);
  if (std::getenv("PLANWRIGHT_REGENERATE") != nullptr) launcher::write_file(path, text);
}

}  // namespace
}  // namespace planwright::testing
