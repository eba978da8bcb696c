#pragma once

#include <sys/types.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "estimator/spec/json.h"
#include "tests/support/test_folder.h"

/// The real program, run as a process of its own.
namespace planwright::testing {

struct CommandResult {
  int code = -1;  ///< exit code; 128 + the signal that ended it
  std::string out;
  std::string err;
};

/// What to run, where: `folder` is the working directory and holds the streams' files.
struct CommandPlace {
  std::string folder;
  std::map<std::string, std::string> environment{};  ///< added to the test's own
  std::string program{};                             ///< empty: the planwright of this build
};

/// A command that runs until it is waited for; killed if the test leaves it.
class RunningCommand {
 public:
  RunningCommand(const CommandPlace& place, const std::vector<std::string>& arguments);
  ~RunningCommand();
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  pid_t pid() const { return pid_; }
  std::string out() const;  ///< so far
  std::string err() const;
  CommandResult wait();

 private:
  std::string out_path_;
  std::string err_path_;
  pid_t pid_ = -1;
};

CommandResult run_command(const CommandPlace& place, const std::vector<std::string>& arguments);

/// Splits at blanks: for command lines without quotes.
std::vector<std::string> words(const std::string& line);

/// The JSON documents of a stream, one per line; a test failure where one is not JSON.
std::vector<Json> json_lines(const std::string& text);

}  // namespace planwright::testing
