#include "cli/problem_input.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/cluster_file.h"
#include "cli/cluster_input.h"
#include "cli/host_room.h"
#include "cli/storage_input.h"
#include "cli/targets.h"
#include "cli/workload_input.h"
#include "estimator/spec/json.h"
#include "launcher/detect/host.h"
#include "tests/support/fake_traits.h"
#include "tests/support/fault.h"
#include "tests/support/test_folder.h"

namespace planwright::cli {
namespace {

using testing::fault_of;
using testing::TestFolder;

Settings read(const TestFolder& folder, const std::string& text) {
  return read_toml_settings(folder.put("study.toml", text));
}

const char* const kPreset = R"([model]
model = "llama-2-7b"
[cluster]
device = "A100-SXM4-80GB"
devices = 16
[job]
seq = 4096
global_batch = 64
)";

TEST(ProblemInput, IsThePresetsWithTheirLinks) {
  const TestFolder folder;
  const ManyCandidates many = read_many_candidates(read(folder, kPreset));
  const Problem& problem = many.input.problem;
  EXPECT_EQ(problem.model.name, "llama-2-7b");
  EXPECT_EQ(problem.cluster.devices(), 16);
  EXPECT_EQ(problem.cluster.per_node, 8);
  EXPECT_GE(problem.cluster.links.size(), 2u);
  EXPECT_EQ(problem.cluster.links.back().span, 16);
  EXPECT_EQ(problem.target, "builtin");
  EXPECT_EQ(problem.workload.recipe, *many.input.traits().recipe(Precision::bf16));
  EXPECT_FALSE(many.input.devices_here);
  const InputFault fault = fault_of([&] { require_devices_here(many.input); });
  EXPECT_EQ(fault.file, folder / "study.toml");
  EXPECT_EQ(fault.key, "[cluster] device");
}

TEST(ProblemInput, OfACpuIsThisHostAndNeedsNoGlobalBatchForOneCandidate) {
  const TestFolder folder;
  const OneCandidate one = read_one_candidate(read(folder, R"([model]
model = "tiny-llama-kind"
[cluster]
device = "cpu"
memory = "256MiB"
threads = 1
[job]
seq = 16
[candidate]
micro_batch = 3
)"));
  EXPECT_TRUE(one.input.devices_here);
  EXPECT_EQ(one.input.problem.cluster.devices(), 2);
  EXPECT_EQ(one.input.problem.cluster.threads_per_rank, 1);
  EXPECT_EQ(one.input.problem.cluster.device.memory, Bytes{256 << 20});
  EXPECT_EQ(one.candidate.dp, 2);
  EXPECT_EQ(one.input.problem.workload.global_batch, 6) << "one micro-batch on each rank";
}

TEST(ProblemInput, WarnsOfWhatTheTablesDoNotKnow) {
  const TestFolder folder;
  const auto warnings = [&](const std::string& cluster) {
    return read_many_candidates(read(folder,
                                     "[model]\nmodel = \"llama-2-7b\"\n[job]\nseq = 4096\n"
                                     "global_batch = 64\n[cluster]\n" +
                                         cluster))
        .input.warnings;
  };
  EXPECT_TRUE(warnings("device = \"A100-SXM4-80GB\"").empty());
  ASSERT_EQ(warnings("device = \"V100-SXM2-32GB\"").size(), 1u);
  EXPECT_NE(warnings("device = \"V100-SXM2-32GB\"").front().find("no units for bf16"),
            std::string::npos);
  EXPECT_EQ(warnings("device = \"L4\"\nmemory = \"512GiB\"").size(), 1u) << "it has 24";
  EXPECT_TRUE(warnings("cluster = \"Lambda 8x H100 SXM\"\ndevice = \"H100\"").empty())
      << "the node says which";
  EXPECT_TRUE(warnings("cluster = \"Lambda 8x H100 SXM\"").empty()) << "one node";
  const auto joined = warnings("cluster = \"Lambda 8x H100 SXM\"\ndevices = 16");
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_NE(joined.front().find("nodes of Lambda 8x H100 SXM is not known"), std::string::npos);
}

TEST(ProblemInput, NamesTheKeyThatThePersonWrote) {
  const TestFolder folder;
  const InputFault fault = fault_of([&] {
    read_many_candidates(read(folder, R"([model]
model = "gpt2"
[cluster]
device = "A100-SXM4-80GB"
[job]
seq = 4611686018427387904
global_batch = 8
)"));
  });
  EXPECT_EQ(fault.file, folder / "study.toml");
  EXPECT_EQ(fault.key, "[job] seq");
  EXPECT_EQ(fault.value, "4611686018427387904");
}

TEST(ProblemInput, OfSocketsHasTheMemoryThatTheyAreSaidToHave) {
  const TestFolder folder;
  const Problem problem = read_many_candidates(read(folder, R"([model]
model = "llama-2-7b"
[cluster]
device = "EPYC 9654"
devices = 4
memory = "384GiB"
[job]
seq = 4096
global_batch = 64
)"))
                              .input.problem;
  EXPECT_EQ(problem.cluster.device.kind, DeviceKind::cpu);
  EXPECT_EQ(problem.cluster.device.memory, Bytes{std::int64_t{384} << 30});
  EXPECT_EQ(problem.cluster.per_node, 2);
  EXPECT_EQ(problem.cluster.threads_per_rank, 96);
}

TEST(ProblemInput, ComesFromAPlanFileAsAWhole) {
  const TestFolder folder;
  const ManyCandidates many = read_many_candidates(read(folder, kPreset));
  launcher::PlanFile plan{many.input.problem, testing::data_parallel(16, 1, 2), {}};
  const std::string path = folder.put("plan.json", to_json(plan).dump());
  Settings settings;
  settings.set(Table::candidate, "plan", {path, kCommandLine, "--plan"});
  const OneCandidate one = read_one_candidate(settings);
  EXPECT_EQ(one.input.problem, plan.problem);
  EXPECT_EQ(one.candidate, plan.candidate);
  EXPECT_EQ(fault_of([&] { require_devices_here(one.input); }).file, path);

  settings.set(Table::job, "seq", {"8", kCommandLine, "--seq"});
  EXPECT_NE(fault_of([&] { read_one_candidate(settings); }).rule.find("[job]"), std::string::npos);
  settings.set(Table::model, "model", {"gpt2", kCommandLine, "--model"});
  settings.set(Table::job, "global-batch", {"32", kCommandLine, "--global-batch"});
  const OneCandidate other = read_one_candidate(settings);
  EXPECT_EQ(other.input.problem.model.name, "gpt2");
  EXPECT_EQ(other.candidate, plan.candidate) << "the plan of one problem, judged for another";
}

TEST(ProblemInput, LetsATypedPlanOverrideTheAxesOfAFile) {
  const TestFolder folder;
  const ManyCandidates many = read_many_candidates(read(folder, kPreset));
  const launcher::PlanFile plan{many.input.problem, testing::data_parallel(16, 1, 2), {}};
  const std::string path = folder.put("plan.json", to_json(plan).dump());
  Settings settings = read(folder, std::string(kPreset) + "[candidate]\nzero = 0\n");
  settings.set(Table::candidate, "plan", {path, kCommandLine, "--plan"});
  EXPECT_EQ(read_one_candidate(settings).candidate.zero, 1);
  settings.set(Table::candidate, "zero", {"0", kCommandLine, "--zero"});
  EXPECT_EQ(fault_of([&] { read_one_candidate(settings); }).key, "--zero");
}

TEST(Workload, IsWhatTheJobTableSays) {
  const TestFolder folder;
  const Settings settings = read(folder, R"([job]
job = "finetune"
seq = 128
global_batch = 32
optimizer = "sgd"
precision = "fp32"
grad_dtype = "bf16"
state_dtype = "bf16"
master_weights = true
headroom = "1GiB"
)");
  const Workload work = read_workload(settings, testing::fake_traits(), {});
  EXPECT_EQ(work.job, Job::finetune);
  EXPECT_EQ(work.seq, 128);
  EXPECT_EQ(work.global_batch, 32);
  EXPECT_EQ(work.optimizer, OptimizerKind::sgd);
  EXPECT_EQ(work.precision, Precision::fp32);
  EXPECT_EQ(work.recipe.gradient, DType::bf16);
  EXPECT_EQ(work.recipe.state, DType::bf16);
  EXPECT_EQ(work.recipe.master, DType::fp32);
  EXPECT_EQ(work.headroom, (Headroom{0, Bytes{1 << 30}}));
}

TEST(Workload, HasTheTargetsRecipeUnlessToldOtherwise) {
  const TestFolder folder;
  const Settings settings =
      read(folder, "[job]\nseq = 8\nglobal_batch = 2\nmaster_weights = false\n");
  const Workload work = read_workload(settings, testing::fake_traits(), {});
  EXPECT_EQ(work.precision, Precision::bf16);
  EXPECT_EQ(work.recipe.gradient, DType::fp32);
  EXPECT_EQ(work.recipe.master, std::nullopt);
  EXPECT_EQ(work.headroom.fraction, 0.05);
}

TEST(Workload, NamesThePrecisionsThatTheTargetHas) {
  const TestFolder folder;
  const Settings settings = read(folder, "[job]\nseq = 8\nglobal_batch = 2\nprecision = \"fp8\"\n");
  const InputFault fault = fault_of([&] { read_workload(settings, testing::fake_traits(), {}); });
  EXPECT_EQ(fault.key, "[job] precision");
  EXPECT_NE(fault.rule.find("fp64, fp32, bf16 or fp16"), std::string::npos) << fault.rule;
}

TEST(Targets, AreFoundByName) {
  EXPECT_EQ(find_target({"builtin", "f", "k"})->traits.name, "builtin");
  EXPECT_EQ(fault_of([] { find_target({"bultin", "f", "k"}); }).nearest, "builtin");
}

TEST(Budget, AndLaunchOptionsComeFromTheirTables) {
  const TestFolder folder;
  const Settings settings = read(folder, R"([budget]
probes = 7
time = "1h30m"
steps = 5
warmup = 2
[launch]
timeout = "5m"
watchdog = "30s"
worker = "bin/worker"
environment = {A = "1"}
[storage]
storage = "x.db"
study = "mine"
)");
  const search::Budget budget = read_budget(settings);
  EXPECT_EQ(budget.probes, 7);
  EXPECT_EQ(budget.seconds, 5400.0);
  EXPECT_EQ(budget.scope, (ProbeScope{ScopeKind::full, 2, 5}));
  const launcher::RunOptions options =
      read_run_options(settings, *find_target({"builtin", "", ""}));
  EXPECT_EQ(options.deadline_s, 300);
  EXPECT_EQ(options.watchdog_s, 30);
  EXPECT_EQ(options.environment.at("A"), "1");
  EXPECT_EQ(options.worker.substr(options.worker.size() - 11), "/bin/worker");
  EXPECT_EQ(study_name(settings, Problem{}), "mine");
  EXPECT_EQ(study_name(Settings{}, Problem{}), problem_hash(Problem{}).substr(0, 12));
  EXPECT_EQ(storage_path(Settings{}), "planwright.db");
}

ClusterSpec with_file(const TestFolder& folder, const std::string& text, int devices = 4) {
  ClusterSpec cluster;
  cluster.per_node = devices;
  cluster.links = {{"usual", BytesPerSecond{1e9}, Seconds{1e-6}, devices}};
  apply_cluster_file(folder.put("cluster.toml", text), cluster);
  return cluster;
}

TEST(ClusterFile, SaysWhatTheTablesDoNotKnow) {
  const TestFolder folder;
  const ClusterSpec cluster = with_file(folder, R"(host_memory = "2TiB"
pcie = "50GB/s"
price_per_device_hour = 2
[[link]]
name = "inner"
bandwidth = "450GB/s"
latency_us = 2
span = 2
[[link]]
name = "outer"
bandwidth = "25GB/s"
latency_us = 10
span = 4
)");
  EXPECT_EQ(cluster.host_memory, Bytes{std::int64_t{2} << 40});
  EXPECT_EQ(cluster.pcie, BytesPerSecond{50e9});
  EXPECT_EQ(cluster.price_per_device_hour, 2.0);
  ASSERT_EQ(cluster.links.size(), 2u);
  EXPECT_EQ(cluster.links[0], (Link{"inner", BytesPerSecond{450e9}, Seconds{2e-6}, 2}));
  EXPECT_EQ(cluster.links[1].span, 4);
  EXPECT_EQ(with_file(folder, "").links.size(), 1u) << "without links the tables' stay";
}

TEST(ClusterFile, IsRefusedByKeyAndRule) {
  const TestFolder folder;
  const std::string link = "[[link]]\nname = \"a\"\nbandwidth = \"1GB/s\"\nlatency_us = 1\n";
  const std::tuple<std::string, const char*, const char*> rows[] = {
      {"host_mem = \"1GiB\"", "host_mem", "not a key"},
      {"host_memory = 5", "host_memory", "text in quotes"},
      {"host_memory = \"5G\"", "host_memory", "ambiguous"},
      {"pcie = \"50GB\"", "pcie", "rate"},
      {"price_per_device_hour = \"2\"", "price_per_device_hour", "finite number"},
      {"price_per_device_hour = inf", "price_per_device_hour", "finite number"},
      {"price_per_device_hour = -1", "price_per_device_hour", "more than zero"},
      {"link = 3", "link", "tables [[link]]"},
      {link, "[[link]] span", "missing"},
      {link + "span = 2", "[[link]] span", "all 4 devices"},
      {link + "span = 2.5", "[[link]] span", "whole number"},
      {link + "span = 4\nlanes = 8", "[[link]] lanes", "not a key"},
      {link + "span = 4\n" + link + "span = 4", "[[link]] span", "innermost"},
      {"[[link]]\nname = \"a\"", "[[link]] bandwidth", "missing"},
  };
  for (const auto& [text, key, rule] : rows) {
    const InputFault fault = fault_of([&, t = text] { with_file(folder, t); });
    EXPECT_EQ(fault.key, key) << text;
    EXPECT_NE(fault.rule.find(rule), std::string::npos) << text << ": " << fault.rule;
  }
}

TEST(HostRoom, WarnsOfRanksThatShareCoresAndRefusesMoreThanTheHostCarries) {
  const TestFolder folder;
  const int cores = launcher::detect_host().physical_cores;
  const auto warnings = [&](int devices) {
    const Settings settings = read(folder,
                                   "[model]\nmodel = \"tiny-llama-kind\"\n[cluster]\n"
                                   "device = \"cpu\"\nthreads = 1\ndevices = " +
                                       std::to_string(devices) + "\n[job]\nseq = 16\n");
    return require_host_room(settings, read_one_candidate(settings).input);
  };
  EXPECT_TRUE(warnings(cores).empty());
  ASSERT_EQ(warnings(cores + 1).size(), 1u);
  EXPECT_NE(warnings(cores + 1).front().find("share " + std::to_string(cores)), std::string::npos)
      << warnings(cores + 1).front();
  EXPECT_EQ(fault_of([&] { warnings(1'000'000); }).key, "[cluster] devices");
}

TEST(Cluster, TakesMemoryAndNodesAsTold) {
  const TestFolder folder;
  const ClusterInput input = read_cluster(read(folder, R"([cluster]
device = "H100-SXM5-80GB"
devices = 8
per_node = 4
memory = "40GB"
)"));
  EXPECT_EQ(input.cluster.nodes, 2);
  EXPECT_EQ(input.cluster.per_node, 4);
  EXPECT_EQ(input.cluster.device.memory, Bytes{40'000'000'000});
  EXPECT_FALSE(input.here);
}

}  // namespace
}  // namespace planwright::cli
