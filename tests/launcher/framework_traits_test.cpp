#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "estimator/spec/rules.h"
#include "launcher/targets/accelerate/traits.h"
#include "launcher/targets/deepspeed/traits.h"
#include "launcher/targets/fsdp/traits.h"
#include "launcher/targets/hf_trainer/traits.h"
#include "launcher/targets/pytorch/traits.h"
#include "launcher/targets/torchtitan/traits.h"
#include "tests/support/emit_requests.h"
#include "tests/support/fake_traits.h"

namespace planwright::targets {
namespace {

struct Framework {
  const char* name;
  const TargetTraits& (*traits)();
  launcher::Target (*target)();
};

class FrameworkTraits : public ::testing::TestWithParam<Framework> {
 protected:
  const TargetTraits& traits() const { return GetParam().traits(); }

  /// Llama-3.1-8B on 8 devices, bf16 as the target keeps it.
  Problem problem() const {
    Problem problem =
        testing::emit_request(traits().name, traits().version, Candidate{}).plan.problem;
    problem.workload.recipe = traits().recipe(Precision::bf16).value();
    return problem;
  }
};

INSTANTIATE_TEST_SUITE_P(
    Targets, FrameworkTraits,
    ::testing::Values(Framework{"deepspeed", deepspeed::traits, deepspeed::target},
                      Framework{"accelerate", accelerate::traits, accelerate::target},
                      Framework{"hf_trainer", hf_trainer::traits, hf_trainer::target},
                      Framework{"fsdp", fsdp::traits, fsdp::target},
                      Framework{"torchtitan", torchtitan::traits, torchtitan::target},
                      Framework{"pytorch", pytorch::traits, pytorch::target}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(FrameworkTraits, GoByTheNameOfTheirFolder) {
  std::string name = GetParam().name;
  std::replace(name.begin(), name.end(), '_', '-');
  EXPECT_EQ(traits().name, name);
  EXPECT_EQ(GetParam().target().traits.name, name);
  EXPECT_NE(GetParam().target().emit, nullptr);
  EXPECT_EQ(traits().revision, 1);
}

TEST_P(FrameworkTraits, NameASourceForEachRow) {
  EXPECT_FALSE(traits().holdings.empty());
  for (const Holding& holding : traits().holdings) {
    EXPECT_NE(std::string(holding.source).find(" @ "), std::string::npos) << holding.source;
    EXPECT_TRUE(holding.bytes_each);
    EXPECT_LE(holding.from, holding.to);
    if (holding.grows) {
      EXPECT_EQ(holding.account, Account::gradients);
      EXPECT_EQ(holding.from, Phase::backward);
    }
    if (holding.with_gradients) {
      EXPECT_EQ(holding.from, Phase::backward);
      EXPECT_EQ(holding.to, Phase::backward);
    }
  }
}

TEST_P(FrameworkTraits, HaveRulesWithTextFixAndSource) {
  std::set<std::string> names;
  for (const Rule& rule : traits().rules) {
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name << " is there twice";
    EXPECT_FALSE(rule.source.empty()) << rule.name;
    const BrokenRule said = explain(rule, problem(), testing::sharded_candidate());
    EXPECT_FALSE(said.text.empty()) << rule.name;
    for (const std::string& text : {said.text, said.fix}) {
      EXPECT_EQ(text.find('{'), std::string::npos) << rule.name << ": " << text;
    }
  }
}

/// What can be planned can be written.
TEST_P(FrameworkTraits, HaveTheRulesOfTheirFiles) {
  Candidate candidate = testing::sharded_candidate();
  candidate.cp = 2;
  candidate.dp = 4;
  launcher::EmitRequest request = testing::emit_request(traits().name, traits().version, candidate);
  request.plan.problem = problem();
  request.plan.problem.workload.job = Job::inference;
  const std::string refused = testing::refusal(GetParam().target().emit, request);
  const auto broken = first_broken(traits().rules, request.plan.problem, request.plan.candidate);
  ASSERT_NE(broken, nullptr);
  EXPECT_EQ(refused, reason_text(explain(*broken, request.plan.problem, candidate)));
}

TEST_P(FrameworkTraits, HaveTransformersModulesOrTorchsOwnOperatorsInTheirPlace) {
  EXPECT_TRUE(traits().stand_in_kernels);
  const bool modules = traits().modules != nullptr;
  const KernelSet own = traits().name == "pytorch"      ? KernelSet::litgpt
                        : traits().name == "torchtitan" ? KernelSet::torch_modules
                                                        : KernelSet::transformers;
  EXPECT_EQ(traits().kernels(DeviceKind::cuda), modules ? own : KernelSet::composed);
  const bool everywhere = modules && own == KernelSet::transformers;
  EXPECT_EQ(traits().kernels(DeviceKind::cpu), everywhere ? own : KernelSet::composed);
  EXPECT_EQ(traits().transport(DeviceKind::cpu), Transport::gloo);
  EXPECT_EQ(traits().transport(DeviceKind::cuda), Transport::nccl);
}

TEST_P(FrameworkTraits, TakeTheDefaultPlanOfOneDevice) {
  Problem one = problem();
  one.cluster.per_node = 1;
  const auto broken = broken_rule(one, traits(), Candidate{});
  EXPECT_FALSE(broken) << broken->text;
}

TEST_P(FrameworkTraits, RefuseWhatCannotBeEstimatedYet) {
  const auto refused = [&](const auto& change) {
    Problem changed = problem();
    change(changed);
    const auto broken = broken_rule(changed, traits(), testing::sharded_candidate());
    return broken ? broken->name : "";
  };
  EXPECT_EQ(refused([](Problem&) {}), "");
  EXPECT_EQ(refused([](Problem& p) { p.model.runs[0].block.sinks = true; }),
            traits().name == "torchtitan" ? "model_of_a_family" : "estimates_attention_sinks");
  EXPECT_EQ(refused([](Problem& p) {
              DType& state = p.workload.recipe.state;
              state = state == DType::bf16 ? DType::fp32 : DType::bf16;
            }),
            "estimates_types");
  EXPECT_NE(refused([](Problem& p) { p.workload.recipe.master = DType::fp16; }), "");
  EXPECT_NE(refused([](Problem& p) {
              p.workload.job = Job::qlora;
              p.cluster.device.kind = DeviceKind::cpu;
            }),
            "");
  EXPECT_EQ(refused([](Problem& p) { p.workload.optimizer = OptimizerKind::adam8bit; }).empty(),
            traits().name == "hf-trainer");
}

TEST_P(FrameworkTraits, OffloadFromGpusOnly) {
  const auto refused = [&](DeviceKind kind, const Offload& offload) {
    Problem changed = problem();
    changed.cluster.device.kind = kind;
    Candidate candidate = testing::sharded_candidate();
    candidate.offload = offload;
    if (GetParam().name == std::string("accelerate") || traits().name == "hf-trainer") {
      candidate.knobs = {{"engine", "deepspeed"}};
    }
    const auto broken = broken_rule(changed, traits(), candidate);
    return broken ? broken->name : "";
  };
  const Offload states{.optimizer = true, .params = true};
  if (traits().axes.offload.size() == 1) {
    EXPECT_EQ(refused(DeviceKind::cuda, states), "offload_supported");
    return;
  }
  EXPECT_EQ(refused(DeviceKind::cuda, states), "");
  EXPECT_EQ(refused(DeviceKind::cpu, states), "offload_leaves_a_device");
  const std::string name = traits().name;
  const bool has = name == "hf-trainer" || name == "deepspeed" || name == "fsdp";
  EXPECT_EQ(refused(DeviceKind::cuda, {.activations = true}), has ? "" : "offload_supported")
      << name;
}

PrecisionRecipe recipe_of(const TargetTraits& traits, Precision precision) {
  return traits.recipe(precision).value();
}

TEST(FrameworkRecipes, AreAutocastsOrFullyShardsPolicyOverFp32) {
  const PrecisionRecipe expected{DType::fp32, DType::bf16, DType::fp32, std::nullopt, DType::fp32};
  for (const auto traits :
       {accelerate::traits, hf_trainer::traits, fsdp::traits, torchtitan::traits}) {
    EXPECT_EQ(recipe_of(traits(), Precision::bf16), expected) << traits().name;
  }
}

TEST(FrameworkRecipes, OfDeepspeedAre16BitsWithMasters) {
  for (const auto& [word, type] :
       {std::pair{Precision::bf16, DType::bf16}, std::pair{Precision::fp16, DType::fp16}}) {
    const PrecisionRecipe expected{type, type, type, DType::fp32, DType::fp32};
    EXPECT_EQ(recipe_of(deepspeed::traits(), word), expected);
  }
}

TEST(FrameworkRecipes, AreThoseThatTheFilesHaveWordsFor) {
  const auto words = [](const TargetTraits& traits) {
    std::string has;
    for (const std::string& each : all_words<Precision>()) {
      if (traits.recipe(*from_word<Precision>(each))) has += each + " ";
    }
    return has;
  };
  EXPECT_EQ(words(deepspeed::traits()), "fp32 bf16 fp16 ");
  EXPECT_EQ(words(accelerate::traits()), "fp32 bf16 fp16 ");
  EXPECT_EQ(words(hf_trainer::traits()), "fp32 bf16 fp16 ");
  EXPECT_EQ(words(fsdp::traits()), "fp64 fp32 bf16 fp16 ");
  EXPECT_EQ(words(torchtitan::traits()), "fp32 bf16 fp8 ");
}

/// 25 MiB of fp32 gradients, 100 under torchtitan; DeepSpeed's knob counts elements.
TEST(FrameworkBuckets, CloseWhereTheFrameworksDo) {
  Candidate candidate;
  EXPECT_EQ(fsdp::traits().bucket_elements(candidate), 6553600);
  EXPECT_EQ(accelerate::traits().bucket_elements(candidate), 6553600);
  EXPECT_EQ(torchtitan::traits().bucket_elements(candidate), 26214400);
  EXPECT_EQ(deepspeed::traits().bucket_elements(candidate), 500'000'000);
  candidate.knobs = {{"reduce_bucket_size", "50000000"}};
  EXPECT_EQ(deepspeed::traits().bucket_elements(candidate), 50'000'000);
  candidate.knobs = {{"engine", "deepspeed"}};
  EXPECT_EQ(hf_trainer::traits().bucket_elements(candidate), 500'000'000);
}

TEST(FrameworkOverlap, IsTorchsAlwaysAndDeepspeedsByItsKnob) {
  Candidate candidate{.dp = 2, .zero = 2};
  for (const auto traits :
       {accelerate::traits, hf_trainer::traits, fsdp::traits, torchtitan::traits}) {
    EXPECT_TRUE(traits().overlaps(candidate)) << traits().name;
  }
  EXPECT_FALSE(deepspeed::traits().overlaps(candidate)) << "auto, and not zero 3";
  candidate.knobs = {{"overlap_comm", "on"}};
  EXPECT_TRUE(deepspeed::traits().overlaps(candidate));
  candidate.knobs = {{"engine", "deepspeed"}};
  EXPECT_FALSE(hf_trainer::traits().overlaps(candidate));
}

TEST(FrameworkSharding, IsFullyShardsOrDeepspeeds) {
  Problem problem =
      testing::emit_request("accelerate", "1.15.0", testing::sharded_candidate()).plan.problem;
  problem.workload.recipe = recipe_of(accelerate::traits(), Precision::bf16);
  Candidate candidate{.dp = 8, .zero = 3};
  const Sharding torch = accelerate::traits().sharding(problem, candidate);
  EXPECT_EQ(torch.gathering, Gathering::each_use);
  EXPECT_EQ(torch.reduced, DType::bf16) << "its policy has one type for both";
  EXPECT_FALSE(torch.each_micro_batch) << "no_sync";
  EXPECT_EQ(fsdp::traits().sharding(problem, candidate).reduced, DType::fp32);
  EXPECT_TRUE(fsdp::traits().sharding(problem, candidate).each_micro_batch);

  candidate.knobs = {{"engine", "deepspeed"}};
  const Sharding zero = accelerate::traits().sharding(problem, candidate);
  EXPECT_EQ(zero.reuse_elements, 1'000'000'000);
  EXPECT_FALSE(zero.buckets) << "its buffers are holdings";

  candidate = {.pp = 2, .dp = 4, .zero = 2};
  EXPECT_EQ(torchtitan::traits().sharding(problem, candidate).gathering, Gathering::each_step);
  candidate.zero = 3;
  EXPECT_EQ(torchtitan::traits().sharding(problem, candidate).gathering, Gathering::each_use);
  EXPECT_FALSE(torchtitan::traits().sharding(problem, candidate).each_micro_batch);
}

}  // namespace
}  // namespace planwright::targets
