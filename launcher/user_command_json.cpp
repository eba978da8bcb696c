#include "launcher/user_command_json.h"

#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"

namespace planwright::launcher {
namespace {

Json to_json(const LogFormat& log) {
  return {{"name", log.name},
          {"lines", log.lines},
          {"ignored", log.ignored},
          {"decimal_comma", log.decimal_comma},
          {"binary_units", log.binary_units}};
}

LogFormat log_format_from_json(const Json& json) {
  LogFormat log;
  json.at("name").get_to(log.name);
  json.at("lines").get_to(log.lines);
  json.at("ignored").get_to(log.ignored);
  json.at("decimal_comma").get_to(log.decimal_comma);
  json.at("binary_units").get_to(log.binary_units);
  return log;
}

}  // namespace

Json to_json(const UserCommand& user) {
  Json flags = Json::array(), templates = Json::array(), logs = Json::array();
  for (const AxisFlags& each : user.flags) {
    flags.push_back({{"axis", each.axis}, {"words", each.words}});
  }
  for (const TemplateFile& each : user.templates) {
    templates.push_back({{"path", each.path}, {"text", each.text}});
  }
  for (const LogFormat& each : user.logs) logs.push_back(to_json(each));
  return {{"words", user.words},
          {"flags", flags},
          {"templates", templates},
          {"logs", logs},
          {"observe", user.observe},
          {"launcher", user.launcher},
          {"environment", user.environment}};
}

namespace {

/// Plans of earlier versions have none.
std::map<std::string, std::string> environment_from_json(const Json& json,
                                                         const std::string& source) {
  std::map<std::string, std::string> environment;
  if (!json.contains("environment")) return environment;
  json.at("environment").get_to(environment);
  for (const auto& [name, value] : environment) {
    if (is_variable(name, value)) continue;
    throw InputError({source, "command.environment", name, "is no variable of a shell", ""});
  }
  return environment;
}

}  // namespace

UserCommand user_command_from_json(const Json& json, const std::string& source) {
  try {
    UserCommand user;
    json.at("words").get_to(user.words);
    for (const Json& each : json.at("flags")) {
      user.flags.push_back({each.at("axis"), each.at("words")});
    }
    for (const Json& each : json.at("templates")) {
      user.templates.push_back({each.at("path"), each.at("text")});
    }
    for (const Json& each : json.at("logs")) user.logs.push_back(log_format_from_json(each));
    json.at("observe").get_to(user.observe);
    json.at("launcher").get_to(user.launcher);
    user.environment = environment_from_json(json, source);
    return user;
  } catch (const Json::exception& error) {
    throw InputError({source, "command", "",
                      std::string("is not a command as emit writes it: ") + error.what(),
                      "without it, and the command behind --"});
  }
}

}  // namespace planwright::launcher
