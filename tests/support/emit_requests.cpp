#include "tests/support/emit_requests.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "tests/support/test_folder.h"

namespace planwright::testing {

ModelSpec llama_8b() {
  BlockSpec block{.heads = 32, .kv_heads = 8, .head_dim = 128, .ffn = 14336};
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  ModelSpec model;
  model.name = "llama-3.1-8b";
  model.family = "llama";
  model.hidden = 4096;
  model.vocab = 128256;
  model.max_positions = 131072;
  model.rope_theta = 500000;
  model.rope_scaling = {
      .type = "llama3", .factor = 8.0, .original_positions = 8192, .low_freq_factor = 1.0};
  model.runs = {{32, block}};
  return model;
}

launcher::EmitRequest emit_request(const std::string& target, const std::string& version,
                                   const Candidate& candidate) {
  launcher::EmitRequest request;
  Problem& problem = request.plan.problem;
  problem.model = llama_8b();
  problem.cluster.device.name = "H100 SXM 80GB";
  problem.cluster.device.kind = DeviceKind::cuda;
  problem.cluster.device.memory = problem.cluster.device.memory_stated = Bytes{80'000'000'000};
  problem.cluster.device.memory_bandwidth = BytesPerSecond{3.35e12};
  problem.cluster.device.bf16 = FlopsPerSecond{989e12};
  problem.cluster.links = {{"nvlink", BytesPerSecond{4.5e11}, Seconds{1e-6}, 8}};
  problem.cluster.per_node = 8;
  problem.workload.seq = 4096;
  problem.workload.global_batch = 64;
  problem.workload.recipe = {DType::bf16, DType::bf16, DType::fp32, DType::fp32, DType::fp32};
  problem.target = target;
  problem.target_version = version;
  request.plan.candidate = candidate;
  request.source = "p.json";
  request.out = "launch";
  return request;
}

Candidate sharded_candidate() {
  Candidate candidate;
  candidate.dp = 8;
  candidate.zero = 3;
  candidate.recompute.kind = RecomputeKind::full;
  return candidate;
}

bool has_file(const launcher::LaunchConfig& config, const std::string& name) {
  return std::any_of(config.files.begin(), config.files.end(),
                     [&](const auto& file) { return file.path.ends_with("/" + name); });
}

std::string text_of(const launcher::LaunchConfig& config, const std::string& name) {
  for (const launcher::EmittedFile& file : config.files) {
    if (file.path.ends_with("/" + name)) return file.text;
  }
  ADD_FAILURE() << "no file " << name;
  return "";
}

Json json_of(const launcher::LaunchConfig& config, const std::string& name) {
  return Json::parse(text_of(config, name), nullptr, false);
}

bool warns(const launcher::LaunchConfig& config, const std::string& what, const std::string& more) {
  return std::any_of(config.warnings.begin(), config.warnings.end(), [&](const auto& warning) {
    return warning.find(what) != std::string::npos && warning.find(more) != std::string::npos;
  });
}

std::string refusal(const Emit& emit, const launcher::EmitRequest& request) {
  try {
    emit(request);
  } catch (const InputError& error) {
    EXPECT_EQ(error.fault().file, request.source);
    return error.fault().rule;
  }
  return "";
}

void expect_refused(const Emit& emit, const launcher::EmitRequest& request,
                    const std::vector<Refused>& cases) {
  EXPECT_EQ(refusal(emit, request), "") << "the plan that is changed is fine";
  for (const Refused& each : cases) {
    launcher::EmitRequest changed = request;
    each.change(changed.plan.problem, changed.plan.candidate);
    const std::string said = refusal(emit, changed);
    for (const std::string& word : each.words) {
      EXPECT_NE(said.find(word), std::string::npos)
          << describe(changed.plan.candidate) << ": '" << said << "' has no '" << word << "'";
    }
  }
}

const std::vector<std::string>& hostile_texts() {
  static const std::vector<std::string> kTexts{
      "plain",
      "two words",
      "it's \"quoted\"",
      "line\nend\r\n# not a comment",
      "$(touch owned) `touch owned` ${HOME} $1",
      "back\\slash \\n \\u0041 \\",
      "key: value, [list], {map} & *anchor !tag |",
      "''' \"\"\" = ; # % @",
      "\t\x01\x1b[31m\x7f",
      "模型 – ünïcode \U0001F600",
      "next\u0085line \u2028separator \u2029 \u202Eturned\uFEFF",
      "--config_file=other",
      "no",
      "1e-05",
      "{0} {tp} %s %d",
  };
  return kTexts;
}

std::vector<std::string> words_of_script(const std::string& script) {
  const TestFolder folder;
  const std::size_t exec = script.find("\nexec ");
  if (exec == std::string::npos) {
    ADD_FAILURE() << "no exec line";
    return {};
  }
  folder.put("plan.json", "{}");
  folder.put("words.sh", script.substr(0, exec) + "\nprintf '%s\\0' " + script.substr(exec + 6));
  FILE* const pipe = popen(("cd '" + folder.path() + "' && sh words.sh").c_str(), "r");
  std::vector<std::string> words(1);
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) {
    if (c == '\0') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(c);
    }
  }
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_EQ(folder.entries(), 2) << "the script did something";
  words.pop_back();
  const std::string own = std::filesystem::canonical(folder.path()).string();
  for (std::string& word : words) {
    const std::size_t here = word.find(own + "/");
    if (here != std::string::npos) word.replace(here, own.size(), "HERE");
  }
  return words;
}

}  // namespace planwright::testing
