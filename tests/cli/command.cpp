#include "command.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <sstream>

#include "tests/support/fault.h"

namespace planwright::testing {
namespace {

void send_to(int stream, const std::string& path) {
  const int file = open(path.c_str(), O_RDWR);
  if (file < 0 || dup2(file, stream) < 0) _exit(126);
}

[[noreturn]] void become(const CommandPlace& place, const std::string& program,
                         std::vector<char*> argv) {
  // Tests that run side by side do not wait for each other's devices.
  setenv("XDG_RUNTIME_DIR", place.folder.c_str(), 1);
  for (const auto& [name, value] : place.environment) setenv(name.c_str(), value.c_str(), 1);
  if (chdir(place.folder.c_str()) != 0) _exit(126);
  execv(program.c_str(), argv.data());
  _exit(127);
}

int exit_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

RunningCommand::RunningCommand(const CommandPlace& place,
                               const std::vector<std::string>& arguments) {
  static std::atomic<int> count = 0;
  const std::string stem = place.folder + "/stream-" + std::to_string(count++);
  out_path_ = stem + ".out";
  err_path_ = stem + ".err";
  const std::string program =
      place.program.empty() ? std::string(PLANWRIGHT_BIN_DIR) + "/planwright" : place.program;
  std::vector<std::string> words{program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  launcher::write_file(out_path_, "");
  launcher::write_file(err_path_, "");
  pid_ = fork();
  if (pid_ != 0) return;
  send_to(STDIN_FILENO, "/dev/null");
  send_to(STDOUT_FILENO, out_path_);
  send_to(STDERR_FILENO, err_path_);
  become(place, program, std::move(argv));
}

RunningCommand::~RunningCommand() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::string RunningCommand::out() const { return file_text(out_path_); }
std::string RunningCommand::err() const { return file_text(err_path_); }

CommandResult RunningCommand::wait() {
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return {exit_code(status), out(), err()};
}

CommandResult run_command(const CommandPlace& place, const std::vector<std::string>& arguments) {
  return RunningCommand(place, arguments).wait();
}

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()};
}

std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> documents;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    documents.push_back(Json::parse(line, nullptr, false));
    EXPECT_FALSE(documents.back().is_discarded()) << line;
  }
  return documents;
}

}  // namespace planwright::testing
