#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "estimator/spec/json.h"
#include "estimator/spec/target_traits.h"
#include "launcher/plan_file.h"
#include "launcher/user_command.h"

namespace planwright::launcher {

struct EmitRequest {
  PlanFile plan;
  std::string source{};   ///< where the plan stands, for messages about it
  std::string out = ".";  ///< folder of the files
  std::string folder{};   ///< absolute: where the command's relative paths begin; empty: unknown
  int steps = 0;          ///< that the command makes, where it takes a number; 0: nobody said
  bool probe = false;     ///< cut to `steps`, each of them logged and nothing saved
  UserCommand user{};     ///< the script, where the target starts one; none: a placeholder
};

struct EmittedFile {
  std::string path;
  std::string text;
  bool is_program = false;  ///< may be executed
  bool operator==(const EmittedFile&) const = default;
};

/// A plan as its target starts it. Values only; nothing is written before write_files.
struct LaunchConfig {
  std::vector<EmittedFile> files;
  std::vector<std::string> command;
  std::map<std::string, std::string> environment;
  std::vector<std::string> warnings;
  EvidenceKind evidence = EvidenceKind::predicted;
  bool operator==(const LaunchConfig&) const = default;
};

/// One folder of launcher/targets.
struct Target {
  TargetTraits traits;
  std::function<LaunchConfig(const EmitRequest&)> emit;
  /// Measured by planwright-worker; otherwise by what `emit` says, run for a few steps.
  bool has_worker = false;
  bool has_script = false;        ///< of its own, so that the user need not give one
  std::vector<LogFormat> logs{};  ///< how it writes its figures
};

/// CLI.md's keys of `emit`, without schema: `files` are paths.
Json to_json(const LaunchConfig& config);

/// The flag that says where files go, and what could be said instead: those of the verb `emit`.
struct FilesFlag {
  std::string key = "--out";
  std::string instead = "another --out folder, or --force";
};

/// Writes the files, making their folders. A file that exists with another text is left alone and
/// is an InputError in the words of `flag`, unless `force`; nothing is written in that case. A
/// WorldError if the disk fails.
void write_files(const LaunchConfig& config, bool force, const FilesFlag& flag = {});

}  // namespace planwright::launcher
