#include "tests/support/layouts.h"

#include <utility>

#include "launcher/targets/builtin/rules.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/fake_traits.h"

namespace planwright::testing {
namespace {

constexpr std::int64_t kGlobalBatch = 16;
constexpr std::int64_t kSeq = 24;

constexpr Schedule kGpipe = Schedule::gpipe;

Recompute recompute(RecomputeKind kind, int k = 0) { return {kind, k, {}}; }
Recompute full() { return recompute(RecomputeKind::full); }

Candidate with_stages(Candidate c, const std::vector<std::int64_t>& blocks) {
  for (const std::int64_t each : blocks) c.stages.push_back({each, c.recompute, c.offload});
  return c;
}

Candidate one_after_the_other(Candidate c) {
  c.knobs = {{targets::builtin::kOverlapKnob, "off"}};
  return c;
}

Candidate with_buckets(Candidate c, const char* elements) {
  c.knobs = {{targets::builtin::kBucketKnob, elements}};
  return c;
}

/// Of so many sequences, where a candidate does not say: fewer collectives, and so less time.
std::vector<Candidate> with_micro_batches(std::vector<Candidate> all, int sequences) {
  for (Candidate& each : all) {
    if (each.micro_batch == 1 && kGlobalBatch % (std::int64_t{each.dp} * sequences) == 0) {
      each.micro_batch = sequences;
    }
  }
  return all;
}

std::vector<Candidate> alone() {
  return {
      {.tp = 2},
      {.tp = 4},
      {.tp = 2, .sp = true},
      {.tp = 4, .sp = true, .micro_batch = 2},
      {.pp = 2},
      {.pp = 3},
      {.pp = 4, .micro_batch = 2},
      {.pp = 2, .schedule = kGpipe},
      {.pp = 4, .micro_batch = 4, .schedule = kGpipe},
      with_stages({.pp = 2}, {1, 4}),
      with_stages({.pp = 3, .micro_batch = 2}, {3, 1, 1}),
      {.dp = 2},
      {.dp = 8},
      one_after_the_other({.dp = 2}),
      {.dp = 2, .zero = 1},
      {.dp = 2, .zero = 2},
      one_after_the_other({.dp = 2, .zero = 2}),
      with_buckets({.dp = 4, .zero = 2, .micro_batch = 2}, "1048576"),
      {.dp = 2, .zero = 3},
      {.dp = 4, .zero = 3, .micro_batch = 2},
      one_after_the_other({.dp = 2, .zero = 3}),
      {.dp = 4, .zero = 1, .hsdp = 2},
      {.dp = 4, .zero = 2, .hsdp = 2},
      {.dp = 4, .zero = 3, .hsdp = 2},
      {.recompute = full()},
      {.recompute = recompute(RecomputeKind::chunk, 2)},
      {.recompute = recompute(RecomputeKind::chunk, 3)},
      {.recompute = recompute(RecomputeKind::alternate, 2)},
      {.recompute = recompute(RecomputeKind::first, 2)},
  };
}

std::vector<Candidate> combined() {
  return {
      {.tp = 2, .dp = 2},
      {.tp = 2, .dp = 2, .zero = 1},
      {.tp = 2, .dp = 2, .zero = 2},
      {.tp = 2, .dp = 2, .zero = 3},
      {.tp = 2, .dp = 4, .zero = 3, .hsdp = 2},
      {.tp = 4, .dp = 2, .zero = 1, .micro_batch = 2},
      {.tp = 2, .dp = 2, .sp = true},
      {.tp = 2, .dp = 2, .zero = 1, .sp = true, .micro_batch = 2},
      {.tp = 2, .dp = 2, .zero = 2, .sp = true},
      {.tp = 2, .dp = 2, .zero = 3, .sp = true},
      one_after_the_other({.tp = 2, .dp = 2, .zero = 3, .sp = true}),
      {.tp = 4, .dp = 2, .zero = 3, .sp = true, .micro_batch = 2},
      {.tp = 2, .pp = 2},
      {.tp = 2, .pp = 2, .sp = true},
      {.tp = 2, .pp = 2, .sp = true, .micro_batch = 4, .schedule = kGpipe},
      {.tp = 4, .pp = 2, .micro_batch = 2},
      {.tp = 4, .pp = 2, .sp = true, .micro_batch = 2},
      {.tp = 2, .pp = 4, .micro_batch = 2},
      {.tp = 2, .pp = 3, .sp = true, .micro_batch = 2},
      {.pp = 2, .dp = 2},
      {.pp = 2, .dp = 2, .zero = 1},
      {.pp = 2, .dp = 2, .zero = 2},
      {.pp = 2, .dp = 2, .zero = 3},
      {.pp = 2, .dp = 2, .zero = 3, .micro_batch = 2, .schedule = kGpipe},
      {.pp = 2, .dp = 4, .zero = 2, .hsdp = 2},
      {.pp = 2, .dp = 4, .zero = 3, .hsdp = 2},
      {.pp = 4, .dp = 2, .zero = 1, .micro_batch = 2},
      {.pp = 4, .dp = 2, .micro_batch = 2, .schedule = kGpipe},
      {.pp = 3, .dp = 2, .zero = 1, .micro_batch = 2},
      with_stages({.pp = 2, .dp = 2, .zero = 3}, {4, 1}),
      with_stages({.tp = 2, .pp = 2, .sp = true}, {2, 3}),
      {.tp = 2, .pp = 2, .dp = 2},
      {.tp = 2, .pp = 2, .dp = 2, .zero = 1},
      {.tp = 2, .pp = 2, .dp = 2, .zero = 1, .sp = true},
      {.tp = 2, .pp = 2, .dp = 2, .zero = 2, .sp = true},
      {.tp = 2, .pp = 2, .dp = 2, .zero = 3, .sp = true},
      {.tp = 2, .pp = 2, .dp = 2, .zero = 3, .sp = true, .micro_batch = 2, .schedule = kGpipe},
      one_after_the_other({.tp = 2, .pp = 2, .dp = 2, .zero = 2}),
      {.tp = 2, .dp = 2, .zero = 1, .sp = true, .recompute = full()},
      {.tp = 2, .pp = 2, .sp = true, .recompute = recompute(RecomputeKind::alternate, 2)},
      {.pp = 2, .dp = 2, .zero = 3, .recompute = full()},
      {.dp = 2, .zero = 3, .recompute = recompute(RecomputeKind::chunk, 2)},
      {.pp = 2, .dp = 2, .zero = 2, .recompute = recompute(RecomputeKind::chunk, 2)},
      {.dp = 4, .zero = 3, .hsdp = 2, .recompute = recompute(RecomputeKind::first, 3)},
      {.tp = 2, .pp = 2, .dp = 2, .zero = 3, .sp = true, .micro_batch = 2, .recompute = full()},
      {.tp = 2, .pp = 2, .dp = 2, .zero = 1, .recompute = recompute(RecomputeKind::first, 1)},
  };
}

}  // namespace

const std::vector<Candidate>& layouts() {
  static const std::vector<Candidate> kLayouts = [] {
    auto all = alone();
    for (Candidate& each : combined()) all.push_back(std::move(each));
    return with_micro_batches(std::move(all), 2);
  }();
  return kLayouts;
}

namespace {

constexpr AttentionKernel kEager = AttentionKernel::eager;
constexpr LossKernel kFused = LossKernel::fused, kChunked = LossKernel::chunked;

Recompute selective() { return recompute(RecomputeKind::selective); }

bool is_plain(LayoutModel which) {
  return which == LayoutModel::gpt_tied || which == LayoutModel::llama;
}

bool is_gpt(LayoutModel which) {
  return which != LayoutModel::llama && which != LayoutModel::qwen &&
         which != LayoutModel::llama_lora;
}

/// Windows and dropped weights are not the flash kernel's.
bool needs_eager(LayoutModel which) {
  return which == LayoutModel::gpt_dropout || which == LayoutModel::qwen;
}

std::vector<Candidate> techniques_alone() {
  return {
      {.attention = kEager},
      {.loss = kFused},
      {.loss = kChunked},
      {.recompute = selective()},
      {.recompute = selective(), .attention = kEager},
      {.tp = 2, .attention = kEager},
      {.tp = 2, .loss = kFused},
      {.tp = 2, .sp = true, .loss = kChunked},
      {.tp = 2, .sp = true, .recompute = selective(), .attention = kEager},
      {.dp = 2, .zero = 3, .loss = kChunked},
      {.dp = 2, .zero = 2, .recompute = selective()},
  };
}

std::vector<Candidate> techniques_in_turns(LayoutModel which) {
  std::vector<Candidate> all{
      {},
      {.tp = 2},
      {.tp = 2, .sp = true},
      {.pp = 2, .micro_batch = 2},
      {.dp = 2, .zero = 1, .micro_batch = 4},
      {.dp = 2, .zero = 3},
      {.tp = 2, .pp = 2, .dp = 2, .zero = 2, .sp = true},
      {.tp = 4, .dp = 2, .zero = 3, .sp = true, .micro_batch = 2, .recompute = selective()},
      {.tp = 4, .recompute = selective()},
      {.recompute = full()},
      {.tp = 2, .pp = 2, .sp = true, .recompute = full()},
      {.dp = 2, .zero = 3, .recompute = recompute(RecomputeKind::chunk, 2)},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (needs_eager(which) || i % 2 == 1) all[i].attention = kEager;
    all[i].loss = i % 3 == 0 ? LossKernel::plain : i % 3 == 1 ? kFused : kChunked;
  }
  return all;
}

}  // namespace

ModelSpec layout_model(LayoutModel which) {
  const bool gpt = is_gpt(which);
  BlockSpec block;
  block.heads = gpt ? 4 : 8;
  block.kv_heads = 4;
  block.head_dim = gpt ? 10 : 6;
  block.ffn = gpt ? 96 : 52;
  block.mlp = gpt ? MlpKind::plain : MlpKind::gated;
  block.activation = gpt ? Activation::gelu_tanh : Activation::silu;
  block.norm = gpt ? NormKind::layer_norm : NormKind::rms_norm;
  block.qkv_bias = block.out_bias = block.mlp_bias = gpt;
  if (which == LayoutModel::neox) block.residual = Residual::parallel;
  if (which == LayoutModel::gptj || which == LayoutModel::gptj_lora)
    block.residual = Residual::parallel_shared;
  if (which == LayoutModel::qwen) {
    block.qk_norm = true;
    block.sliding_window = 9;
  }
  const bool parallel = block.residual != Residual::sequential;
  constexpr std::array kNames{"gpt, tied", "llama", "gpt, dropout", "qwen",
                              "neox",      "gptj",  "llama, lora",  "gptj, lora"};
  ModelSpec model;
  model.name = kNames[static_cast<std::size_t>(which)];
  model.hidden = gpt ? 40 : 44;
  model.vocab = gpt ? 101 : 67;
  model.max_positions = kSeq + 3;
  model.positions = gpt && !parallel ? Positions::learned : Positions::rotary;
  model.tied_embeddings = gpt && !parallel;
  model.runs = {{5, block}};
  using enum LoraTarget;
  if (which == LayoutModel::llama_lora) {
    model.lora = {3, {q_proj, v_proj, o_proj, gate_proj, up_proj, down_proj}};
  }
  if (which == LayoutModel::gptj_lora) model.lora = {2, {qkv_proj, o_proj, up_proj, down_proj}};
  return model;
}

std::vector<Candidate> technique_layouts(LayoutModel which) {
  return with_micro_batches(is_plain(which) ? techniques_alone() : techniques_in_turns(which), 4);
}

std::vector<Candidate> layouts_of(LayoutModel which) {
  std::vector<Candidate> all;
  if (is_plain(which)) all = layouts();
  for (Candidate& each : technique_layouts(which)) all.push_back(std::move(each));
  return all;
}

Candidate reference_layout(LayoutModel which) {
  Candidate candidate{.micro_batch = 16};
  if (needs_eager(which)) candidate.attention = kEager;
  return candidate;
}

Problem layout_problem(LayoutModel which, const Candidate& candidate, Precision precision) {
  const TargetTraits& traits = targets::builtin::traits();
  Problem problem =
      fake_problem(layout_model(which), static_cast<int>(candidate.world()), precision);
  problem.target = traits.name;
  problem.target_version = traits.version;
  problem.traits_revision = traits.revision;
  problem.workload.recipe = traits.recipe(precision).value();
  problem.workload.seq = kSeq;
  problem.workload.global_batch = kGlobalBatch;
  if (problem.model.lora.freezes()) problem.workload.job = Job::lora;
  if (which == LayoutModel::gpt_dropout) {
    problem.workload.hidden_dropout = 0.1;
    problem.workload.attention_dropout = 0.2;
  }
  return problem;
}

}  // namespace planwright::testing
