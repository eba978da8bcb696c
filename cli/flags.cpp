#include "cli/flags.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cxxopts.hpp>

#include "cli/command_input.h"

namespace planwright::cli {
namespace {

constexpr std::string_view kCommonKeys[] = {"json", "quiet", "verbose", "color", "seed", "help"};

bool takes(const Verb& verb, const Key& key) {
  const auto has = [&](const auto& list, auto value) {
    return std::find(std::begin(list), std::end(list), value) != std::end(list);
  };
  if (is_in_files_only(key.shape)) return false;
  if (has(kCommonKeys, key.name) || has(verb.own, key.name)) return true;
  if (key.table != Table::none && has(verb.tables, key.table)) return true;
  return has(verb.tables, Table::space) && belongs(key, Table::space);
}

cxxopts::Options make_options(const Verb& verb) {
  cxxopts::Options options(fmt::format("planwright {}", verb.name));
  options.allow_unrecognised_options();
  for (const Key& key : all_keys()) {
    if (!takes(verb, key)) continue;
    auto value = cxxopts::value<std::string>();
    if (key.shape == Shape::mark) value->implicit_value("on");
    options.add_options()(key.name == "help" ? "h,help" : std::string(key.name), "", value);
  }
  return options;
}

[[noreturn]] void refuse_flag(const Verb& verb, const std::string& word) {
  const std::string flag = word.substr(0, word.find('='));
  std::vector<std::string> valid;
  for (const Key& key : all_keys()) {
    if (takes(verb, key)) valid.push_back(fmt::format("--{}", key.name));
  }
  const Key* key = find_key(flag.size() > 2 ? flag.substr(2) : "");
  throw InputError(
      {kCommandLine, flag, "",
       key == nullptr ? "is not a flag" : fmt::format("is not a flag of planwright {}", verb.name),
       nearest_word(flag, valid)});
}

/// Positional arguments are what the parser left over and is no flag.
std::vector<std::string> positional_words(const Verb& verb, const std::vector<std::string>& left) {
  for (const std::string& word : left) {
    if (word.size() > 1 && word.front() == '-') refuse_flag(verb, word);
  }
  if (left.size() > verb.most_words) {
    throw InputError({kCommandLine, left[verb.most_words], "",
                      verb.most_words == 0
                          ? fmt::format("planwright {} takes flags only", verb.name)
                          : fmt::format("is one argument too many: planwright {} {} [flags]",
                                        verb.name, verb.arguments),
                      ""});
  }
  return left;
}

Setting flag_setting(const cxxopts::KeyValue& given) {
  Setting setting{given.value(), kCommandLine, fmt::format("--{}", given.key())};
  if (setting.text.empty() || setting.text.rfind("--", 0) == 0) {
    refuse({"", kCommandLine, setting.key}, "needs a value");
  }
  return setting;
}

/// Adds the flags to `settings`, over what the file has.
void apply_flags(const Verb& verb, const std::vector<cxxopts::KeyValue>& given,
                 Settings& settings) {
  Settings seen;
  for (const cxxopts::KeyValue& each : given) {
    const Key& key = *find_key(each.key());
    Setting setting = flag_setting(each);
    if (seen.find(Table::none, key.name) != nullptr) refuse(setting, "is given twice");
    seen.set(Table::none, key.name, setting);
    const bool axis = belongs(key, Table::space) && key.table == Table::candidate;
    settings.set(axis ? verb.axes : key.table, key.name, std::move(setting));
  }
}

CommonFlags common_flags(const Settings& settings) {
  CommonFlags flags;
  flags.json = settings.marked(Table::none, "json");
  flags.quiet = settings.marked(Table::none, "quiet");
  flags.verbose = settings.marked(Table::none, "verbose");
  if (const Setting* color = settings.find(Table::none, "color")) {
    flags.color = parse_setting_word<ColorChoice>(*color);
  }
  if (const Setting* seed = settings.find(Table::none, "seed")) {
    flags.seed = static_cast<std::uint64_t>(parse_integer(*seed, 0));
  }
  if (flags.quiet && flags.verbose) {
    refuse({"", kCommandLine, "--quiet"}, "contradicts --verbose");
  }
  return flags;
}

cxxopts::ParseResult parse(cxxopts::Options& options, const Arguments& arguments) {
  std::vector<const char*> words{"planwright"};
  for (const std::string& word : arguments) words.push_back(word.c_str());
  try {
    return options.parse(static_cast<int>(words.size()), words.data());
  } catch (const cxxopts::exceptions::exception&) {
    // Every value is a text, so the only thing that can be wrong is a missing one, of the last
    // flag.
    refuse({"", kCommandLine, arguments.back()}, "needs a value");
  }
}

/// What stands before `--`, and the user's command behind it.
std::pair<Arguments, Arguments> split_at_dashes(const Verb& verb, const Arguments& all) {
  const auto dashes = std::find(all.begin(), all.end(), "--");
  if (dashes == all.end() || !verb.takes_command) return {all, {}};
  if (dashes + 1 == all.end()) {
    throw InputError({kCommandLine, "--", "", "needs a command behind it", ""});
  }
  return {Arguments(all.begin(), dashes), Arguments(dashes + 1, all.end())};
}

}  // namespace

CommandLine read_command_line(const Verb& verb, const Arguments& all) {
  const auto [arguments, command] = split_at_dashes(verb, all);
  cxxopts::Options options = make_options(verb);
  const cxxopts::ParseResult parsed = parse(options, arguments);
  CommandLine line;
  if (parsed.count("help") > 0) {
    line.help = true;
    return line;
  }
  line.words = positional_words(verb, parsed.unmatched());
  if (verb.takes_file && !line.words.empty()) {
    line.settings = read_toml_settings(line.words.front());
    line.words.erase(line.words.begin());
  }
  apply_flags(verb, parsed.arguments(), line.settings);
  if (!command.empty()) line.settings.set(Table::launch, "command", setting_of_words(command));
  line.common = common_flags(line.settings);
  return line;
}

namespace {

/// Keys of a TOML table stand below its name.
std::string heading(const Key& key) {
  if (key.table == Table::none) return "Flags";
  return fmt::format("[{}]", kTableNames[static_cast<std::size_t>(key.table)]);
}

}  // namespace

std::string help_text(const Verb& verb) {
  std::string text =
      fmt::format("{}\n\n  planwright {} {}{}[flags]{}\n\nExample:\n  {}\n", verb.summary,
                  verb.name, verb.arguments, verb.arguments.empty() ? "" : " ",
                  verb.takes_command ? " [-- SCRIPT or COMMAND of your own]" : "", verb.example);
  std::string group;
  for (const Key& key : all_keys()) {
    if (!takes(verb, key)) continue;
    const std::string home = heading(key);
    if (home != group) text += fmt::format("\n{}\n", home);
    group = home;
    const std::string flag = fmt::format("--{} {}", key.name, key.argument);
    text += fmt::format("  {:<26} {}\n", flag, key.help);
  }
  return text;
}

int print_help(const Verb& verb) {
  const std::string text = help_text(verb);
  std::fwrite(text.data(), 1, text.size(), stdout);
  return 0;
}

}  // namespace planwright::cli
