#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "estimator/hf_block.h"
#include "estimator/hf_program.h"
#include "tests/support/fault.h"

/// Blocks and heads on the tape against the storages of the real ones: tests/data/hf_traces.
namespace planwright::estimator {
namespace {

using tape::Graph;
using tape::Var;

/// What is made, and what is alive then. Scalars are left out.
struct Made {
  std::int64_t bytes = 0, live = 0;
  bool operator==(const Made&) const = default;
};

struct Story {
  std::vector<Made> forward, backward;
  std::int64_t kept = 0;  ///< alive between them

  static std::int64_t peak(const std::vector<Made>& part) {
    std::int64_t most = 0;
    for (const Made& each : part) most = std::max(most, each.live);
    return most;
  }
};

constexpr std::int64_t kScalar = 64;

void tell(std::vector<Made>& story, std::int64_t& live, bool made, std::int64_t bytes) {
  if (bytes < kScalar) return;
  live += made ? bytes : -bytes;
  if (made) story.push_back({bytes, live});
}

Story recorded(const std::string& name) {
  Story story;
  std::istringstream lines(testing::file_text(std::string(PLANWRIGHT_SOURCE_DIR) +
                                              "/tests/data/hf_traces/" + name + ".txt"));
  std::vector<Made>* part = &story.forward;
  std::int64_t live = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line == "---") {
      story.kept = live;
      part = &story.backward;
      continue;
    }
    tell(*part, live, line[0] == '+', std::stoll(line.substr(2)));
  }
  return story;
}

void tell(std::vector<Made>& story, std::int64_t& live, const Script& script) {
  for (const Event& event : script.events()) {
    if (event.kind == Event::Kind::call) continue;
    tell(story, live, event.kind == Event::Kind::make, event.bytes);
  }
}

StepShape shape() {
  StepShape s{.batch = 2, .seq = 384, .hidden = 1024, .compute = DType::bf16};
  s.modules.stream = s.modules.weights = s.modules.norms = DType::bf16;
  s.modules.on_accelerator = false;
  return s;
}

BlockSpec llama() {
  return {.heads = 16,
          .kv_heads = 4,
          .head_dim = 64,
          .ffn = 2816,
          .mlp = MlpKind::gated,
          .activation = Activation::silu,
          .norm = NormKind::rms_norm};
}

BlockSpec gpt2() {
  return {.heads = 16,
          .kv_heads = 16,
          .head_dim = 64,
          .ffn = 4096,
          .qkv_bias = true,
          .out_bias = true,
          .mlp_bias = true};
}

StepShape gpt2_shape(AttentionKernel attention) {
  StepShape s = shape();
  s.rotary = false;
  s.attention = attention;
  s.hidden_dropout = s.attention_dropout = true;
  s.modules.python_gelu = s.modules.fused_qkv = true;
  return s;
}

/// Llama's with adapters; transformers 4.45 repeats keys and values before sdpa.
StepShape lora_shape(bool dropout) {
  using enum LoraTarget;
  StepShape s = shape();
  s.lora = {16, {q_proj, k_proj, v_proj, o_proj}};
  s.modules.adapters = DType::fp32;
  s.modules.adapter_dropout = dropout;
  s.modules.repeats_kv = true;
  return s;
}

/// As hf_trace.py runs the block: its caller has the input, the output and the gradient of that.
Story told(const StepShape& s, const BlockSpec& block) {
  Graph graph(tape::Sums::apart);
  Script forward, backward;
  std::vector<Var> gradients;
  graph.adopt = [&](Var gradient) { gradients.push_back(std::move(gradient)); };
  graph.record(forward);
  Var x = graph.given("x", s.tokens() * s.hidden, s.modules.stream, true);
  const Var leaf{.elements = x.elements, .maker = x.maker};
  const Var y = HfBlock(graph, s, block).forward(std::as_const(x));
  x = {};
  graph.record(backward);
  const Var dy = graph.like("dy", y);
  const Var dx = graph.backward(y, dy, leaf);
  Story story;
  std::int64_t live = 0;
  tell(story.forward, live, forward);
  story.kept = live;
  tell(story.backward, live, backward);
  return story;
}

struct Case {
  const char* trace;
  StepShape shape;
  BlockSpec block;
  bool copies_layouts;  ///< the trace has copies that only the meta device's layouts ask for
};

class HfTrace : public ::testing::TestWithParam<Case> {};

TEST_P(HfTrace, BlocksKeepAndPeakAsTheirStoragesDid) {
  const Story real = recorded(GetParam().trace);
  const Story ours = told(GetParam().shape, GetParam().block);
  EXPECT_EQ(ours.kept, real.kept);
  EXPECT_EQ(Story::peak(ours.forward), Story::peak(real.forward));
  EXPECT_EQ(Story::peak(ours.backward), Story::peak(real.backward));
}

TEST_P(HfTrace, ForwardsMakeTheSameTensorsInTheSameOrder) {
  if (GetParam().copies_layouts) return;
  EXPECT_EQ(told(GetParam().shape, GetParam().block).forward, recorded(GetParam().trace).forward);
}

INSTANTIATE_TEST_SUITE_P(
    Blocks, HfTrace,
    ::testing::Values(Case{"llama", shape(), llama(), false},
                      Case{"llama_lora", lora_shape(false), llama(), true},
                      Case{"llama_lora_dropout", lora_shape(true), llama(), true},
                      Case{"gpt2", gpt2_shape(AttentionKernel::flash), gpt2(), false},
                      Case{"gpt2_eager", gpt2_shape(AttentionKernel::eager), gpt2(), false}),
    [](const auto& info) { return std::string(info.param.trace); });

/// Peaks of a head, of its forward with the loss and of its backward.
std::pair<std::int64_t, std::int64_t> head_peaks(LossStyle style, bool frozen) {
  StepShape s = shape();
  s.hidden = 256;
  s.vocab = 8000;
  s.modules.loss = style;
  if (frozen) s.lora = {8, {LoraTarget::q_proj}};
  const StepProgram::Head head = HfProgram(s).head(llama());
  std::vector<Made> forward, backward;
  std::int64_t live = 0;
  tell(forward, live, head.before);
  const StepProgram::Chunk& chunk = head.chunks.front();
  for (const Script* part : {&chunk.forward, &chunk.loss}) tell(forward, live, *part);
  for (const Script* part : {&chunk.loss_backward, &chunk.product_backward, &chunk.backward}) {
    tell(backward, live, *part);
  }
  return {Story::peak(forward), Story::peak(backward)};
}

TEST(HfHead, LogitsFollowTheVersionsLossFunction) {
  constexpr std::int64_t kLabels = 2 * 383 * 8 + 8;  // shifted ones and scalars, not on the tape
  for (const auto& [style, name] : {std::pair{LossStyle::in_model, "head_4_45_"},
                                    {LossStyle::function, "head_4_48_"},
                                    {LossStyle::shifted_labels, "head_v5_"}}) {
    for (const bool frozen : {false, true}) {
      const Story real = recorded(name + std::string(frozen ? "lora" : "full"));
      const auto [forward, backward] = head_peaks(style, frozen);
      EXPECT_NEAR(forward, Story::peak(real.forward), 3 * kLabels) << name << frozen;
      EXPECT_NEAR(backward, Story::peak(real.backward), 3 * kLabels) << name << frozen;
    }
  }
}

/// 12, 14 and 12 bytes of a logit, whatever the model: the later versions' peak is in the backward.
/// flash-attn's kernel needs the narrow logits and their gradients.
TEST(HfHead, BytesOfALogitAre12And14And12And4) {
  const double logits = 2.0 * 384 * 8000;
  const auto of_logit = [&](LossStyle style) {
    const auto [forward, backward] = head_peaks(style, true);
    return static_cast<double>(std::max(forward, backward)) / logits;
  };
  EXPECT_NEAR(of_logit(LossStyle::in_model), 12, 0.2);
  EXPECT_NEAR(of_logit(LossStyle::function), 14, 0.2);
  EXPECT_NEAR(of_logit(LossStyle::shifted_labels), 12, 0.2);
  EXPECT_NEAR(of_logit(LossStyle::by_caller), 4, 0.2);
}

}  // namespace
}  // namespace planwright::estimator
