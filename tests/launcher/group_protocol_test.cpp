#include "launcher/group_protocol.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"

namespace planwright::launcher {
namespace {

TEST(GroupProtocol, ASpecificationComesBackAsItWas) {
  GroupSpec spec;
  spec.ranks = {
      {{"/bin/sh", "-c", "echo \"ä\n\""}, {{"A", "1"}, {"B", ""}}, "/tmp/log", {0, 3}, "/tmp/r"},
      {{"true"}, {}, "", {}}};
  spec.peer_grace_s = 0.25;
  spec.term_grace_s = 0.5;
  spec.work_folder = "/tmp/x";
  EXPECT_EQ(group_spec_from_json(Json::parse(to_json(spec).dump())), spec);
  EXPECT_EQ(to_json(spec).dump().find('\n'), std::string::npos) << "one line";
}

TEST(GroupProtocol, EveryEventComesBackAsItWas) {
  const GroupEvent events[] = {RankStarted{1, 77, 2.5}, RankNotStarted{0, "no such file"},
                               RankProgress{2, "step 3"}, RankExited{3, 0, 9, true, "a\nb\n"},
                               GroupEnded{.left = 2}};
  for (const GroupEvent& event : events) {
    const std::string text = to_json(event).dump();
    EXPECT_EQ(to_json(group_event_from_json(Json::parse(text))).dump(), text);
  }
}

TEST(GroupProtocol, RefusesWhatIsNoEventOrNoSpecification) {
  EXPECT_THROW(group_event_from_json(Json{{"event", "surprise"}, {"rank", 0}}), WorldError);
  EXPECT_ANY_THROW(group_event_from_json(Json::array()));
  EXPECT_ANY_THROW(group_spec_from_json(Json::object()));
  Json empty_command = to_json(GroupSpec{.ranks = {{{"true"}, {}, "", {}}}, .work_folder = ""});
  empty_command["ranks"][0]["argv"] = Json::array();
  EXPECT_THROW(group_spec_from_json(empty_command), WorldError);
}

}  // namespace
}  // namespace planwright::launcher
