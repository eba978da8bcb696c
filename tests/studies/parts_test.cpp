#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <nlohmann/json.hpp>

#include "sample.h"
#include "studies/owner.h"
#include "studies/problem_diff.h"
#include "studies/storage_path.h"
#include "studies/time_text.h"

namespace planwright::studies {
namespace {

TEST(TimeText, IsUtcWithSixDigits) {
  EXPECT_EQ(time_text(0), "1970-01-01 00:00:00.000000");
  EXPECT_EQ(time_text(testing::kNow), testing::kNowText);
  EXPECT_EQ(time_text(1750000000.9999996), "2025-06-15 15:06:41.000000");
  EXPECT_EQ(time_text(-0.5), "1969-12-31 23:59:59.500000");
}

TEST(TimeText, ReadsWhatOptunaWritesAndNothingElse) {
  EXPECT_EQ(unix_time(testing::kNowText), testing::kNow);
  EXPECT_EQ(unix_time("2025-06-15 15:06:40"), 1750000000.0);
  EXPECT_EQ(unix_time("2025-06-15 15:06:40.5"), 1750000000.5);
  for (const char* text : {"", "2025-06-15", "2025-06-15T15:06:40.000000", "2025-06-15 15:06:40Z",
                           "2025-06-15 15:06:40.", "2025-06-15 15:06:40.1234567",
                           "2025-06-15 15:06:40+09:00", "2025-06-15 15:06:4x"}) {
    EXPECT_EQ(unix_time(text), std::nullopt) << text;
  }
}

TEST(Owners, AreAliveWhileTheirProcessRuns) {
  const Owner here = this_process();
  EXPECT_EQ(owner_state(here, here), OwnerState::alive);
  EXPECT_EQ(owner_from_json(Json::parse(to_json(here).dump())), here);
}

TEST(Owners, AreGoneOnceTheirProcessEndsEvenAsAZombie) {
  testing::Child child([](int out) {
    const std::string text = to_json(this_process()).dump();
    if (::write(out, text.data(), text.size()) > 0) ::_exit(7);
  });
  const int alive_until_reaped = 0;
  child.await_output(static_cast<std::size_t>(-1));  // ended, not yet waited for
  const auto end = child.wait();
  ASSERT_EQ(end.code, 7 + alive_until_reaped);
  const auto owner = owner_from_json(Json::parse(end.text));
  ASSERT_TRUE(owner);
  EXPECT_EQ(owner_state(*owner, this_process()), OwnerState::gone);
}

TEST(Owners, AreToldApartByHostBootContainerAndStart) {
  const Owner here = this_process();
  struct Case {
    const char* name;
    void (*change)(Owner&);
    OwnerState expected;
  };
  for (const Case& each : {
           Case{"other host", [](Owner& o) { o.host += "x"; }, OwnerState::elsewhere},
           Case{"other container", [](Owner& o) { o.pid_space += "x"; }, OwnerState::elsewhere},
           Case{"before a reboot", [](Owner& o) { o.boot += "x"; }, OwnerState::gone},
           Case{"id used again", [](Owner& o) { o.started -= 1; }, OwnerState::gone},
           Case{"no such id", [](Owner& o) { o.pid = 0x7fffffff; }, OwnerState::gone},
       }) {
    Owner owner = here;
    each.change(owner);
    EXPECT_EQ(owner_state(owner, here), each.expected) << each.name;
  }
}

TEST(Owners, AreNotReadFromForeignJson) {
  for (const char* text : {"null", "{}", R"({"host": 1})", R"([1])", R"("x")"}) {
    EXPECT_EQ(owner_from_json(Json::parse(text)), std::nullopt) << text;
  }
}

TEST(Differences, NameTheFirstFieldAndBothValues) {
  struct Case {
    const char *left, *right, *path, *left_value, *right_value;
  };
  for (const Case& each : {
           Case{R"({"a":{"b":1,"c":2}})", R"({"a":{"b":1,"c":3}})", "a.c", "2", "3"},
           Case{R"({"a":1})", R"({"a":1,"b":"x"})", "b", "its default", R"("x")"},
           Case{R"({"a":1,"b":false})", R"({"a":1})", "b", "false", "its default"},
           Case{R"({"r":[{"n":2},{"n":3}]})", R"({"r":[{"n":2},{"n":4}]})", "r[1].n", "3", "4"},
           Case{R"({"r":[1]})", R"({"r":[1,2]})", "r[1]", "its default", "2"},
           Case{R"({"r":[1]})", R"({"r":{"a":1}})", "r", "[1]", R"({"a":1})"},
       }) {
    const Difference expected{each.path, each.left_value, each.right_value};
    EXPECT_EQ(first_difference(Json::parse(each.left), Json::parse(each.right)), expected);
  }
}

TEST(Differences, AreNoneForTheSameFieldsInAnotherOrder) {
  EXPECT_EQ(first_difference(Json::parse(R"({"a":1,"b":2})"), Json::parse(R"({"b":2,"a":1})")),
            std::nullopt);
}

TEST(NetworkFileSystems, AreToldByTheirMagic) {
  EXPECT_EQ(network_name(0x6969), "NFS");
  EXPECT_EQ(network_name(0xFF534D42), "CIFS");
  EXPECT_EQ(network_name(0x0BD00BD0), "Lustre");
  EXPECT_EQ(network_name(0xEF53), "");      // ext4
  EXPECT_EQ(network_name(0x01021994), "");  // tmpfs
}

TEST(NetworkFileSystems, AreNotSeenOnALocalFolder) {
  testing::Folder folder;
  EXPECT_EQ(network_file_system(folder.file("not there yet.db")), "");
}

}  // namespace
}  // namespace planwright::studies
