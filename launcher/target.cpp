#include "launcher/target.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "estimator/spec/text_file.h"
#include "launcher/files.h"

namespace planwright::launcher {
namespace {

namespace fs = std::filesystem;

bool holds_other_text(const EmittedFile& file) {
  std::error_code error;
  return fs::exists(file.path, error) && read_file(file.path) != file.text;
}

void make_folder_of(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  std::error_code error;
  if (!folder.empty()) fs::create_directories(folder, error);
  if (error) throw WorldError("cannot make " + folder.string() + ": " + error.message());
}

}  // namespace

Json to_json(const LaunchConfig& config) {
  Json files = Json::array();
  for (const EmittedFile& file : config.files) files.push_back(file.path);
  return {{"files", files},
          {"command", config.command},
          {"environment", config.environment},
          {"warnings", config.warnings},
          {"evidence", word(config.evidence)}};
}

void write_files(const LaunchConfig& config, bool force, const FilesFlag& flag) {
  for (const EmittedFile& file : config.files) {
    const std::string fault = unwritable(file.path);
    if (!fault.empty()) throw InputError({file.path, flag.key, file.path, fault, ""});
    if (force || !holds_other_text(file)) continue;
    throw InputError({file.path, flag.key, file.path, std::string(kOtherContent), flag.instead});
  }
  for (const EmittedFile& file : config.files) {
    make_folder_of(file.path);
    replace_file(file.path, file.text, file.is_program ? kProgramMode : kFileMode);
  }
}

}  // namespace planwright::launcher
