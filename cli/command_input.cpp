#include "cli/command_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/toml_text.h"
#include "estimator/spec/json.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/text_file.h"
#include "launcher/logs/log_table.h"
#include "launcher/logs/pattern.h"
#include "launcher/missing_script.h"
#include "launcher/plan_file.h"
#include "launcher/shell.h"
#include "launcher/targets/command/axes.h"

namespace planwright::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kWords = "must be a list of texts in quotes";

std::vector<std::string> texts_of(const toml::array& list, const Setting& place) {
  std::vector<std::string> words;
  for (const toml::node& each : list) {
    const auto text = each.value_exact<std::string>();
    if (!text) refuse(place, kWords);
    words.push_back(*text);
  }
  return words;
}

/// `word`, or the file of that name beside the settings' own.
std::string beside(const Setting& place, const std::string& word) {
  if (place.file == kCommandLine || word.empty()) return word;
  const fs::path path = fs::path(place.file).parent_path() / word;
  std::error_code unreadable;
  if (!fs::is_regular_file(path, unreadable)) return word;
  const std::string found = path.lexically_normal().string();
  const bool is_path = word.find('/') != std::string::npos;  // and no program of the PATH
  return is_path && found.find('/') == std::string::npos ? "./" + found : found;
}

std::vector<std::string> words_of(const Setting& setting) {
  const toml::table document = parse_toml("words = " + setting.text, setting.file);
  std::vector<std::string> words = texts_of(*document.get("words")->as_array(), setting);
  if (words.empty()) refuse(setting, "must have at least one word");
  if (words.front().empty() || words.front() == "--") {
    refuse({fmt::format("\"{}\"", words.front()), setting.file, setting.key},
           "must begin with a program or a script");
  }
  for (std::string& word : words) word = beside(setting, word);
  return words;
}

/// `torchrun`, `python3`: a name that is looked up in the PATH, where a script is a file.
bool looks_like_program(const std::string& word) {
  std::error_code unreadable;
  return word.find('/') == std::string::npos && !word.starts_with('-') && !word.ends_with(".py") &&
         !fs::is_regular_file(word, unreadable);
}

/// Words in one text, as a shell has them, or in a list.
std::vector<std::string> flag_words(const toml::node& node, const Setting& place) {
  if (const toml::array* list = node.as_array()) return texts_of(*list, place);
  const auto text = node.value_exact<std::string>();
  if (!text) refuse(place, "must be words: a text, or a list of texts, in quotes");
  const auto words = launcher::shell_words(*text);
  if (words) return *words;
  refuse({*text, place.file, place.key},
         "has a quote that is not closed, or ends in a backslash; a list of texts needs no quotes "
         "of a shell");
}

launcher::AxisFlags axis_flags(const std::string& axis, const toml::node& node,
                               const Setting& place) {
  launcher::AxisFlags flags{axis, {}};
  const toml::table* values = node.as_table();
  if (values == nullptr) {
    flags.words[""] = flag_words(node, place);
    return flags;
  }
  for (const auto& [value, words] : *values) {
    const std::string name(value.str());
    flags.words[name] = flag_words(words, {"", place.file, place.key + "." + name});
  }
  if (flags.words.empty()) refuse(place, "must have words for at least one value");
  return flags;
}

std::vector<launcher::AxisFlags> all_flags(const Setting& setting) {
  std::vector<launcher::AxisFlags> all;
  for (const auto& [axis, node] : parse_toml(setting.text, setting.file)) {
    const std::string name(axis.str());
    all.push_back(axis_flags(name, node, {"", setting.file, setting.key + "." + name}));
  }
  return all;
}

std::map<std::string, std::string> variables_of(const Setting& setting) {
  auto variables = parse_pairs(setting);
  for (const auto& [name, value] : variables) {
    if (launcher::is_variable(name, value)) continue;
    refuse({name, setting.file, setting.key},
           "is no variable: its name must be letters, digits and underscores, without a digit in "
           "front, and its value have no null character");
  }
  return variables;
}

/// Of the same folder, spelled alike.
std::string nearest_script(const std::string& word) {
  const fs::path folder = fs::path(word).parent_path();
  std::vector<std::string> scripts;
  std::error_code error;
  for (fs::directory_iterator each(folder.empty() ? "." : folder, error), end;
       !error && each != end; each.increment(error)) {
    if (each->path().extension() != ".py") continue;
    scripts.push_back((folder / each->path().filename()).string());
  }
  std::sort(scripts.begin(), scripts.end());
  return nearest_word(word, scripts);
}

bool is_time_or_memory(launcher::Field field) {
  using enum launcher::Field;
  switch (field) {
    case number:
    case step:
    case steps:
    case rank:
    case loss:
    case allocation_retries:
    case oom_device:
      return false;
    default:
      return true;
  }
}

/// A line without a figure says nothing, and a table whose figures are neither times nor sizes
/// measures nothing.
void require_figures(const launcher::LogFormat& format, const Setting& place) {
  bool measures = false;
  for (const std::string& line : format.lines) {
    const std::vector<launcher::Field> fields =
        launcher::Pattern(line, place.file, "[launch.log]").fields();
    const bool is_idle = std::all_of(fields.begin(), fields.end(), [](launcher::Field field) {
      return field == launcher::Field::number;
    });
    if (is_idle) {
      refuse({line, place.file, "[launch.log] lines"},
             "yields nothing: it must name a figure, as {step_s} or {allocated_peak_gib}");
    }
    measures = measures || std::any_of(fields.begin(), fields.end(), is_time_or_memory);
  }
  if (!measures) {
    refuse({"", place.file, "[launch.log]"},
           "measures nothing: one line must name a time or a size, as {step_s} or "
           "{allocated_peak_gib}");
  }
}

}  // namespace

launcher::UserCommand read_user_command(const Settings& settings, launcher::UserCommand kept) {
  launcher::UserCommand user;
  const Setting* plan = settings.find(Table::candidate, "plan");
  if (settings.find(Table::launch, "command") == nullptr) {
    user = plan == nullptr ? std::move(kept) : launcher::load_plan_command(plan->text);
  }
  if (const Setting* words = settings.find(Table::launch, "command")) user.words = words_of(*words);
  if (const Setting* flags = settings.find(Table::launch, "flags")) user.flags = all_flags(*flags);
  if (const Setting* file = settings.find(Table::launch, "template")) {
    user.templates.clear();
    user.templates.push_back({file->text, read_given_file(file->text)});
  }
  if (const Setting* log = settings.find(Table::launch, "log")) {
    user.logs.clear();
    user.logs.push_back(
        launcher::log_format_of_toml(parse_toml(log->text, log->file), log->file, "[launch.log]"));
    require_figures(user.logs.back(), *log);
  }
  if (const Setting* launcher = settings.find(Table::launch, "launcher")) {
    user.launcher = launcher->text;
  }
  if (const Setting* environment = settings.find(Table::launch, "environment")) {
    user.environment = variables_of(*environment);
  }
  if (const Setting* observe = settings.find(Table::launch, "observe")) {
    user.observe = parse_toggle(*observe);
  }
  return user;
}

void require_startable(const Settings& settings, const launcher::Target& target,
                       const launcher::UserCommand& user) {
  const std::string& name = target.traits.name;
  const Setting* launcher = settings.find(Table::launch, "launcher");
  if (launcher != nullptr && name == kCommandTarget) {
    refuse(*launcher, "is not for target command: your command starts its ranks itself");
  }
  if (launcher != nullptr && target.has_worker) {
    refuse(*launcher, fmt::format("is not for target {}, which starts its ranks itself", name));
  }
  if (name == kCommandTarget || user.words.empty() || !looks_like_program(user.words.front())) {
    return;
  }
  const Setting place = command_setting(settings);
  refuse({user.words.front(), place.file, place.key},
         fmt::format("is no script: target {} starts the ranks itself, so give only your script "
                     "and its arguments",
                     name),
         "--target command, for a whole command line");
}

void require_program(const Settings& settings, const launcher::UserCommand& user) {
  if (user.words.empty() || launcher::find_program(user.words.front(), user.environment)) return;
  const Setting place = command_setting(settings);
  const std::string& program = user.words.front();
  refuse({program, place.file, place.key},
         "is not in the PATH: activate the environment that it is installed in, or give one "
         "(--environment PATH=...)",
         nearest_word(program, launcher::programs_in_path(user.environment)));
}

void require_script(const Settings& settings, const launcher::UserCommand& user) {
  const auto missing = launcher::missing_script(user);
  if (!missing) return;
  const Setting place = command_setting(settings);
  refuse({*missing, place.file, place.key},
         fmt::format("is not there in {}, where the command would be run",
                     fs::current_path().string()),
         nearest_script(*missing));
}

void require_own_threads(const Settings& settings, const ClusterSpec& cluster) {
  const Setting* given = settings.find(Table::launch, "environment");
  if (given == nullptr || cluster.device.kind != DeviceKind::cpu) return;
  const auto variables = parse_pairs(*given);
  const auto threads = variables.find("OMP_NUM_THREADS");
  if (threads == variables.end() || threads->second == std::to_string(cluster.threads_per_rank)) {
    return;
  }
  refuse({threads->first + "=" + threads->second, given->file, given->key},
         fmt::format("contradicts --threads, by which ranks on a CPU are estimated and started: {} "
                     "each",
                     cluster.threads_per_rank),
         "--threads " + threads->second);
}

Setting command_setting(const Settings& settings) {
  if (const Setting* given = settings.find(Table::launch, "command")) return *given;
  const Setting* plan = settings.find(Table::candidate, "plan");
  return plan == nullptr ? Setting{"", kCommandLine, "--"} : Setting{"", plan->text, "command"};
}

void require_something_to_tune(const Settings& settings, const Problem& problem,
                               const launcher::UserCommand& user) {
  if (problem.target != kCommandTarget) return;
  const bool divides =
      problem.workload.global_batch > 0 && launcher::names_placeholder(user, "accumulation");
  if (divides || !targets::command::named_axes(user).empty()) return;
  const Setting place = command_setting(settings);
  refuse({"", place.file, place.key},
         fmt::format("names nothing of a plan, so that there is nothing to tune: put {{{}}} in it, "
                     "as your script spells them, or the words for one into [launch.flags]",
                     fmt::join(targets::command::tunable_axes(), "} or {")));
}

Setting setting_of_words(const std::vector<std::string>& words) {
  try {
    return {Json(words).dump(), kCommandLine, "--"};
  } catch (const Json::exception&) {
    throw InputError({kCommandLine, "--", "", "must be followed by words in UTF-8", ""});
  }
}

}  // namespace planwright::cli
