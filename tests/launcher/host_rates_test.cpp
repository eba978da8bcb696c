#include "launcher/host_rates.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "estimator/spec/text_file.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

using testing::TestFolder;

/// The supervisor of this build.
const std::string kSupervisor = std::string(PLANWRIGHT_BIN_DIR) + "/planwright-supervisor";

/// A worker that counts its runs and reports fixed rates.
class RatesProcess : public ::testing::Test {
 protected:
  RatesProcess() {
    options_.supervisor = kSupervisor;
    options_.temp_root = folder_.path();
    options_.worker =
        folder_.put_script("worker", "echo x >> " + folder_.path() + "/runs\ncp " + folder_.path() +
                                         "/answer \"${1%/*}/report.$2.json\"");
    cache_.folder = folder_ / "cache";
    cache_.warn = [this](const std::string& text) { warnings_.push_back(text); };
    rates_.matmul_fp32_flops_per_s = 1.25e11;
    rates_.kernel_overhead_s = 2e-6;
    probes::RankReport report;
    report.rates = rates_;
    folder_.put("answer", probes::to_json(report).dump());
  }

  HostRates ask() { return host_rates(query_, options_, cache_); }
  std::size_t runs() { return read_file(folder_ / "runs").size() / 2; }
  std::string cache_file() {
    return std::filesystem::directory_iterator(cache_.folder)->path().string();
  }

  TestFolder folder_;
  RunOptions options_;
  RatesQuery query_{1, 1, DeviceKind::cpu, "some CPU"};
  RatesCache cache_;
  HostRates rates_;
  std::vector<std::string> warnings_;
};

TEST_F(RatesProcess, AreMeasuredOnce) {
  EXPECT_EQ(ask(), rates_);
  EXPECT_EQ(ask(), rates_);
  EXPECT_EQ(runs(), 1u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(RatesProcess, AreKnownOnceTheyWereMeasuredAndAskingStartsNothing) {
  EXPECT_EQ(known_host_rates(query_, options_, cache_), std::nullopt);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "runs"));
  ask();
  EXPECT_EQ(known_host_rates(query_, options_, cache_), rates_);
  EXPECT_EQ(runs(), 1u);
  query_.threads = 2;
  EXPECT_EQ(known_host_rates(query_, options_, cache_), std::nullopt);
}

TEST_F(RatesProcess, AreMeasuredAgainWhenAskedFor) {
  ask();
  cache_.refresh = true;
  ask();
  EXPECT_EQ(runs(), 2u);
}

TEST_F(RatesProcess, AreMeasuredAgainWhenAnythingTheyDependOnChanges) {
  ask();
  query_.threads = 2;
  ask();
  EXPECT_EQ(runs(), 2u) << "threads";
  query_.device_model = "another CPU";
  ask();
  EXPECT_EQ(runs(), 3u) << "device";
  folder_.put("worker", read_file(options_.worker) + "\n");
  ask();
  EXPECT_EQ(runs(), 4u) << "worker";
}

TEST_F(RatesProcess, ABrokenOrForeignCacheIsMeasuredAgain) {
  ask();
  const std::string file = cache_file();
  const std::string good = read_file(file);
  Json old = Json::parse(good);
  old["schema"] = "planwright.rates/0";
  Json foreign = Json::parse(good);
  foreign["key"]["world"] = 64;
  Json unknown = Json::parse(good);
  unknown["rates"]["surprise"] = 1;
  std::size_t expected = 1;
  for (const std::string& bad :
       {std::string(), good.substr(0, good.size() / 2), std::string("[]"), std::string("\x01\xff"),
        old.dump(), foreign.dump(), unknown.dump()}) {
    write_file(file, bad);
    EXPECT_EQ(ask(), rates_) << bad;
    EXPECT_EQ(runs(), ++expected) << bad;
    EXPECT_EQ(read_file(file), good) << "repaired";
  }
}

TEST_F(RatesProcess, ACacheThatCannotBeWrittenIsAWarning) {
  cache_.folder = folder_.put("file", "not a folder");
  EXPECT_EQ(ask(), rates_);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("file/rates-"), std::string::npos) << warnings_[0];
}

TEST_F(RatesProcess, AFailedBenchmarkSaysWhy) {
  folder_.put_script("worker", "exit 3");
  try {
    ask();
    FAIL() << "no error";
  } catch (const WorldError& error) {
    EXPECT_NE(std::string(error.what()).find("exit code 3"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace planwright::launcher
