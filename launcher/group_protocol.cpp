#include "launcher/group_protocol.h"

#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"

namespace planwright::launcher {
namespace {

template <class... Parts>
struct Overload : Parts... {
  using Parts::operator()...;
};
template <class... Parts>
Overload(Parts...) -> Overload<Parts...>;

RankCommand rank_command_from_json(const Json& json) {
  RankCommand command;
  command.argv = json.at("argv").get<std::vector<std::string>>();
  command.environment = json.at("environment").get<std::map<std::string, std::string>>();
  command.log_path = json.at("log_path").get<std::string>();
  command.cpus = json.at("cpus").get<std::vector<int>>();
  command.must_leave = json.at("must_leave").get<std::string>();
  if (command.argv.empty()) throw WorldError("a rank without a command");
  return command;
}

}  // namespace

Json to_json(const GroupSpec& spec) {
  Json ranks = Json::array();
  for (const RankCommand& rank : spec.ranks) {
    ranks.push_back({{"argv", rank.argv},
                     {"environment", rank.environment},
                     {"log_path", rank.log_path},
                     {"cpus", rank.cpus},
                     {"must_leave", rank.must_leave}});
  }
  return {{"ranks", ranks},
          {"peer_grace_s", spec.peer_grace_s},
          {"term_grace_s", spec.term_grace_s},
          {"work_folder", spec.work_folder}};
}

GroupSpec group_spec_from_json(const Json& json) {
  GroupSpec spec;
  for (const Json& rank : json.at("ranks")) spec.ranks.push_back(rank_command_from_json(rank));
  spec.peer_grace_s = json.at("peer_grace_s").get<double>();
  spec.term_grace_s = json.at("term_grace_s").get<double>();
  spec.work_folder = json.at("work_folder").get<std::string>();
  return spec;
}

Json to_json(const GroupEvent& event) {
  return std::visit(
      Overload{[](const RankStarted& e) {
                 return Json{{"event", "started"},
                             {"rank", e.rank},
                             {"pid", e.pid},
                             {"monotonic_s", e.monotonic_s}};
               },
               [](const RankNotStarted& e) {
                 return Json{{"event", "not_started"}, {"rank", e.rank}, {"reason", e.reason}};
               },
               [](const RankProgress& e) {
                 return Json{{"event", "progress"}, {"rank", e.rank}, {"text", e.text}};
               },
               [](const RankExited& e) {
                 return Json{{"event", "exited"},    {"rank", e.rank},
                             {"code", e.code},       {"signal", e.signal},
                             {"ordered", e.ordered}, {"log_tail", e.log_tail}};
               },
               [](const GroupEnded& e) {
                 return Json{{"event", "ended"}, {"left", e.left}};
               }},
      event);
}

GroupEvent group_event_from_json(const Json& json) {
  const auto name = json.at("event").get<std::string>();
  if (name == "ended") return GroupEnded{.left = json.at("left").get<int>()};
  const int rank = json.at("rank").get<int>();
  if (name == "started") {
    return RankStarted{rank, json.at("pid").get<int>(), json.at("monotonic_s").get<double>()};
  }
  if (name == "not_started") return RankNotStarted{rank, json.at("reason").get<std::string>()};
  if (name == "progress") return RankProgress{rank, json.at("text").get<std::string>()};
  if (name == "exited") {
    return RankExited{rank, json.at("code").get<int>(), json.at("signal").get<int>(),
                      json.at("ordered").get<bool>(), json.at("log_tail").get<std::string>()};
  }
  throw WorldError("the supervisor sent an unknown event: " + name);
}

}  // namespace planwright::launcher
