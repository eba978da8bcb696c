#include "rank_processes.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>

namespace planwright::worker::testing {

std::string fresh_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "planwright-worker-XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no folder for the test");
  return pattern;
}

RankProcesses::RankProcesses(probes::ProbeRequest request)
    : request_(std::move(request)), folder_(fresh_folder()) {
  request_.rendezvous = folder_ + "/meeting";
  request_.report_prefix = folder_ + "/report";
  std::ofstream(folder_ + "/request.json") << probes::to_json(request_).dump();
  for (int rank = 0; rank < request_.world; ++rank) processes_.push_back(start(rank));
}

RankProcesses::~RankProcesses() {
  for (int rank = 0; rank < request_.world; ++rank) kill(rank);
  wait();
  for (const Process& process : processes_) close(process.progress);
  std::filesystem::remove_all(folder_);
}

RankProcesses::Process RankProcesses::start(int rank) const {
  int pipe_ends[2];
  if (pipe2(pipe_ends, O_CLOEXEC) != 0) throw std::runtime_error("no pipe for the test");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], probes::kProgressDescriptor);
  std::vector<std::string> words{PLANWRIGHT_BIN_DIR "/planwright-worker-cpu",
                                 folder_ + "/request.json", std::to_string(rank)};
  std::vector<char*> argv{words[0].data(), words[1].data(), words[2].data(), nullptr};
  Process process{.pid = -1, .progress = pipe_ends[0]};
  const int error = posix_spawn(&process.pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  if (error != 0) throw std::runtime_error("cannot start " + words[0]);
  return process;
}

std::vector<int> RankProcesses::wait() {
  std::vector<int> codes;
  for (Process& process : processes_) {
    int status = 0;
    if (process.pid < 0 || waitpid(process.pid, &status, 0) < 0) continue;
    process.pid = -1;
    codes.push_back(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  }
  return codes;
}

void RankProcesses::kill(int rank) {
  if (processes_[rank].pid > 0) ::kill(processes_[rank].pid, SIGKILL);
}

std::string RankProcesses::next_step(int rank) {
  for (;;) {
    std::string line;
    for (char c = 0; read(processes_[rank].progress, &c, 1) == 1 && c != '\n';) line += c;
    if (line != "alive") return line;
  }
}

probes::RankReport RankProcesses::report(int rank) const {
  const std::string path = folder_ + "/report." + std::to_string(rank) + ".json";
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return probes::rank_report_from_json(parse_json(text, path), path);
}

bool RankProcesses::has_report(int rank) const {
  return std::filesystem::exists(folder_ + "/report." + std::to_string(rank) + ".json");
}

}  // namespace planwright::worker::testing
