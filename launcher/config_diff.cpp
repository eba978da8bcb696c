#include "launcher/config_diff.h"

#include <fmt/core.h>
#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <stdexcept>

#include "estimator/spec/error.h"
#include "estimator/spec/json.h"
#include "estimator/spec/text_file.h"

namespace planwright::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFormats = "is none of JSON, YAML and TOML, by the end of its name";

/// "json", "yaml", "toml"; empty for any other.
std::string format_of(const std::string& path) {
  const std::string end = fs::path(path).extension().string();
  if (end == ".json" || end == ".toml") return end.substr(1);
  return end == ".yaml" || end == ".yml" ? "yaml" : "";
}

/// A number or a word of YAML as what it means; quoted ones are texts.
Json scalar(const YAML::Node& node) {
  if (node.Tag() == "!") return node.Scalar();
  if (bool flag = false; YAML::convert<bool>::decode(node, flag)) return flag;
  if (std::int64_t whole = 0; YAML::convert<std::int64_t>::decode(node, whole)) return whole;
  if (double number = 0; YAML::convert<double>::decode(node, number)) return number;
  return node.Scalar();
}

Json from_yaml(const YAML::Node& node) {
  switch (node.Type()) {
    case YAML::NodeType::Map: {
      Json object = Json::object();
      for (const auto& each : node) {
        const std::string key = each.first.Scalar();
        if (object.contains(key)) throw std::invalid_argument("the key " + key + " stands twice");
        object[key] = from_yaml(each.second);
      }
      return object;
    }
    case YAML::NodeType::Sequence: {
      Json list = Json::array();
      for (const auto& each : node) list.push_back(from_yaml(each));
      return list;
    }
    case YAML::NodeType::Scalar:
      return scalar(node);
    default:
      return {};
  }
}

Json from_toml(const toml::table& table) {
  std::ostringstream text;
  text << toml::json_formatter{table};
  return Json::parse(text.str());
}

Json parsed(const std::string& text, const std::string& path) {
  const std::string format = format_of(path);
  if (format == "json") return parse_json(text, path);
  try {
    if (format == "toml") return from_toml(toml::parse(text));
    return from_yaml(YAML::Load(text));
  } catch (const std::exception& error) {  // each library has its own
    throw InputError({path, "--diff", "", "cannot be read as " + format + ": " + error.what(), ""});
  }
}

/// Those that planwright adds to every configuration are not what is in use.
bool is_ours(const fs::path& path) {
  return path.filename() == "plan.json" || path.filename() == "origin.json";
}

const EmittedFile& counterpart(const LaunchConfig& config, const std::string& path) {
  const std::string format = format_of(path);
  if (format.empty()) throw InputError({path, "--diff", "", kFormats, ""});
  const EmittedFile* same_format = nullptr;
  for (const EmittedFile& file : config.files) {
    if (fs::path(file.path).filename() == fs::path(path).filename()) return file;
    const bool fits = format_of(file.path) == format && !is_ours(file.path);
    if (fits && same_format == nullptr) same_format = &file;
  }
  if (same_format != nullptr) return *same_format;
  std::vector<std::string> names;
  for (const EmittedFile& file : config.files) {
    if (!format_of(file.path).empty() && !is_ours(file.path)) {
      names.push_back(fs::path(file.path).filename().string());
    }
  }
  throw InputError({path, "--diff", "",
                    "the target writes no file of this format" +
                        (names.empty() ? "" : ", but " + join_words(names)),
                    ""});
}

bool equal(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.get<double>() == b.get<double>();
  return a == b;
}

std::optional<std::string> text_of(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.dump());
}

using Keys = std::set<std::string>;

std::string joined_key(const std::string& key, const std::string& name) {
  return key.empty() ? name : key + "." + name;
}

/// Those of objects, and of objects in them.
void add_keys(const std::string& key, const Json& value, Keys& keys) {
  if (!key.empty()) keys.insert(key);
  if (!value.is_object()) return;
  for (const auto& [name, part] : value.items()) add_keys(joined_key(key, name), part, keys);
}

/// What the target can write into the file of this name.
Keys written_keys(const std::string& name, const std::vector<LaunchConfig>& others) {
  Keys keys;
  for (const LaunchConfig& config : others) {
    for (const EmittedFile& file : config.files) {
      if (fs::path(file.path).filename() != fs::path(name).filename()) continue;
      add_keys("", parsed(file.text, file.path), keys);
    }
  }
  return keys;
}

struct Comparison {
  const Keys& written;
  ConfigComparison result{};

  void add(const std::string& key, const Json& in_use, const Json& planned) {
    if (equal(in_use, planned)) return;
    const ConfigDifference difference{key, text_of(in_use), text_of(planned)};
    if (planned.is_null() && written.count(key) == 0) {
      result.own.push_back(key);
    } else if (in_use == "auto" && !planned.is_null()) {
      result.automatic.push_back(difference);
    } else {
      result.differences.push_back(difference);
    }
  }

  void compare(const std::string& key, const Json& in_use, const Json& planned) {
    if (in_use.is_object() && planned.is_object()) {
      Keys names;
      for (const Json* each : {&in_use, &planned}) {
        for (const auto& [name, value] : each->items()) names.insert(name);
      }
      for (const std::string& name : names) {
        compare(joined_key(key, name), in_use.value(name, Json()), planned.value(name, Json()));
      }
    } else if (in_use.is_array() && planned.is_array() && in_use.size() == planned.size()) {
      for (std::size_t i = 0; i < in_use.size(); ++i) {
        compare(fmt::format("{}[{}]", key, i), in_use[i], planned[i]);
      }
    } else {
      add(key, in_use, planned);
    }
  }
};

std::string text_in_use(const std::string& path) {
  try {
    return read_given_file(path);
  } catch (const InputError& error) {
    throw InputError({path, "--diff", "", error.fault().rule, ""});
  }
}

/// The file in use, which has keys.
Json read_in_use(const std::string& path) {
  Json in_use = parsed(text_in_use(path), path);
  if (!in_use.is_object()) {
    throw InputError({path, "--diff", "", "must have keys and values at its outermost", ""});
  }
  return in_use;
}

}  // namespace

ConfigComparison compare_config(const LaunchConfig& config, const std::string& path,
                                const std::vector<LaunchConfig>& others) {
  const EmittedFile& file = counterpart(config, path);
  const Keys written = written_keys(file.path, others);
  Comparison comparison{written};
  comparison.compare("", read_in_use(path), parsed(file.text, file.path));
  return comparison.result;
}

}  // namespace planwright::launcher
