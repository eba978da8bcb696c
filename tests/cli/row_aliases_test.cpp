#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

#include "cli/row_words.h"
#include "estimator/devices.h"
#include "rows.h"

/// What words of published rows mean.
namespace planwright::testing {
namespace {

struct Spelling {
  const char* column;
  const char* text;
  std::function<bool(const cli::RowProblem&)> means;
};

TEST(RowAliases, MeanTheWordsOfTheCommandLine) {
  const auto optimizer = [](OptimizerKind kind) {
    return
        [kind](const cli::RowProblem& p) { return p.one.input.problem.workload.optimizer == kind; };
  };
  const auto precision = [](Precision word) {
    return
        [word](const cli::RowProblem& p) { return p.one.input.problem.workload.precision == word; };
  };
  const auto target = [](const char* name) {
    return [name](const cli::RowProblem& p) { return p.one.input.problem.target == name; };
  };
  const std::vector<Spelling> spellings{
      {"optimizer", "adam", optimizer(OptimizerKind::adamw)},
      {"optimizer", "Adam", optimizer(OptimizerKind::adamw)},
      {"optimizer", "adamw_torch_fused", optimizer(OptimizerKind::adamw)},
      {"optimizer", "adamw_bnb_8bit", optimizer(OptimizerKind::adam8bit)},
      {"optimizer", "paged_adamw_8bit", optimizer(OptimizerKind::paged_adam8bit)},
      {"optimizer", "paged_adamw_32bit", optimizer(OptimizerKind::adamw)},
      {"optimizer", "adafactor", optimizer(OptimizerKind::adafactor)},
      {"precision", "tf32", precision(Precision::fp32)},
      {"precision", "bfloat16", precision(Precision::bf16)},
      {"framework", "llm-foundry (composer FSDP)", target("fsdp")},
      {"framework", "hf-trainer + fsdp", target("hf-trainer")},
      {"framework", "ms-swift 2.x / hf-trainer", target("hf-trainer")},
      {"framework", "hf-accelerate", target("accelerate")},
  };
  for (const Spelling& each : spellings) {
    EXPECT_TRUE(each.means(problem_with({{each.column, each.text}})))
        << each.column << " " << each.text;
  }
  EXPECT_EQ(cli::meaning("precision", "mxfp8"), "fp8");
  EXPECT_EQ(cli::meaning("framework", "megatron (NeMo)"), "megatron");
  EXPECT_EQ(cli::meaning("quant", "nf4-dq"), "nf4-dq");
  EXPECT_EQ(cli::known_meaning("quant", "nf4-dq"), std::nullopt);
}

TEST(RowAliases, OfFrameworksMayChooseTheirEngine) {
  const Candidate candidate = candidate_with({{"framework", "hf-trainer + deepspeed"}});
  ASSERT_EQ(candidate.knobs.size(), 1u);
  EXPECT_EQ(candidate.knobs.front(), (std::pair<std::string, std::string>("engine", "deepspeed")));
}

/// Spellings that stand in the tables and have no meaning here, on purpose.
const std::map<std::string, std::set<std::string>> kUnmapped{
    {"precision", {"nvfp4", "bf16 + fp8 head"}},
    {"optimizer",
     {"muon", "muon+adam", "galore-adamw", "adamw_torch_4bit", "q-galore-adamw8bit-per-layer",
      "lora-fa", "q-apollo-mini", "anyprecision-adamw"}}};

template <class Enum>

bool is_mapped(const std::string& column, const std::string& text) {
  return kUnmapped.at(column).count(text) > 0 ||
         from_word<Enum>(cli::meaning(column, text)).has_value();
}

TEST(RowAliases, CoverTheShippedTables) {
  for (const char* file : {"pretrain.csv", "finetune.csv"}) {
    for (const MeasuredRow& row : cli::read_measured_rows(
             std::string(PLANWRIGHT_SOURCE_DIR "/tests/data/measured/") + file)) {
      const std::string gpu = row.text("gpu");
      EXPECT_TRUE(gpu.empty() || !estimator::devices_named(gpu).empty()) << gpu;
      const std::string act = row.text("act");
      EXPECT_TRUE(act.empty() || cli::block_with(act) != nullptr) << act;
      const std::string precision = row.text("precision");
      EXPECT_TRUE(precision.empty() || is_mapped<Precision>("precision", precision)) << precision;
      const std::string optimizer = row.text("optimizer");
      EXPECT_TRUE(optimizer.empty() || is_mapped<OptimizerKind>("optimizer", optimizer))
          << optimizer;
    }
  }
}

}  // namespace
}  // namespace planwright::testing
