#include "estimator/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "estimator/parties.h"
#include "estimator/price.h"
#include "estimator/serving_bytes.h"
#include "estimator/spec/rules.h"

namespace planwright::estimator {
namespace {

// Kernels of a block's forward: two norms, four products, rotation, cache write, attention,
// activation.
constexpr double kKernelsPerBlock = 10;

double real(std::int64_t value) { return static_cast<double>(value); }

std::int64_t sequences_of(const Problem& problem, const Candidate& c) {
  return problem.workload.global_batch / c.dp;
}

template <class Condition>
Rule block_rule(const char* name, Condition broken, const char* text, const char* fix) {
  return {name,
          [broken](const Problem& p, const Candidate& c) {
            return p.model.any_block([&](const BlockSpec& b) { return broken(b, c.tp); });
          },
          text, fix, ""};
}

bool divides(std::int64_t a, std::int64_t b) { return a % b == 0; }

std::vector<Rule> serving_rules() {
  return {
      {"decodes", [](const Problem& p, const Candidate&) { return p.model.encoder; },
       "the model is an encoder: it decodes nothing and has no cache",
       "its sizes are known to `planwright models`", ""},
      block_rule(
          "tp_divides_heads", [](const BlockSpec& b, int tp) { return !divides(b.heads, tp); },
          "tp {tp} does not divide the model's {heads} heads", "use a --tp that divides {heads}"),
      block_rule(
          "tp_divides_kv_heads",
          [](const BlockSpec& b, int tp) {
            return b.kv_heads > 0 && !b.latent && !divides(b.kv_heads, tp) &&
                   !divides(tp, b.kv_heads);
          },
          "tp {tp} neither divides the model's {kv_heads} key/value heads nor is a multiple of "
          "them",
          "use a --tp that divides {kv_heads}, or a multiple of it"),
      block_rule(
          "tp_divides_ffn",
          [](const BlockSpec& b, int tp) {
            return !divides(b.moe ? b.moe->ffn : b.ffn, tp) ||
                   (b.mamba && !divides(b.mamba->inner, tp));
          },
          "tp {tp} does not divide the width of the model's MLP", "use a smaller --tp"),
      {"pp_within_layers",
       [](const Problem& p, const Candidate& c) { return c.pp > p.model.layers(); },
       "pp {pp} is more than the model's {layers} layers", "use a --pp of at most {layers}", ""},
      {"batch_divides",
       [](const Problem& p, const Candidate& c) { return !divides(p.workload.global_batch, c.dp); },
       "dp {dp} replicas do not divide {global_batch} sequences",
       "use a --global-batch that is a multiple of {dp}", ""},
      {"one_batch",
       [](const Problem& p, const Candidate& c) {
         return c.micro_batch != sequences_of(p, c) && c.micro_batch != 1;
       },
       "a server continues all its sequences at once, and micro-batch {micro_batch} is not all",
       "leave --micro-batch out", ""},
      {"context_within_positions",
       [](const Problem& p, const Candidate&) {
         return p.model.max_positions > 0 && p.model.positions == Positions::rotary &&
                p.workload.seq > p.model.max_positions;
       },
       "a context of {seq} is longer than the {max_positions} positions the model was made for",
       "use a --seq of at most {max_positions}", ""},
  };
}

/// The axes of training have no meaning here, and nothing is sharded among replicas.
TargetTraits serving_traits() {
  TargetTraits traits;
  traits.name = "an inference, under any target,";
  traits.axes.tp =
      traits.axes.pp = {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 32, 40, 48, 64};
  traits.axes.attention = {AttentionKernel::flash};
  traits.rules = serving_rules();
  return traits;
}

/// The candidate with its sequences as one micro-batch, which the shared rules count.
Candidate as_served(const Problem& problem, Candidate c) {
  if (c.micro_batch == 1 && c.dp > 0 && problem.workload.global_batch % c.dp == 0) {
    c.micro_batch = static_cast<int>(
        std::min<std::int64_t>(sequences_of(problem, c), std::numeric_limits<int>::max()));
  }
  return c;
}

/// A stage, with what does not depend on its sequences.
struct Stage {
  ServingPart part;
  Bytes weights{};
  double dense_weights = 0;  ///< elements that every token uses
  /// Elements of experts, by the share of them that a token is sent to.
  std::vector<std::pair<double, double>> expert_weights{};
  double product_flops = 0;  ///< of one token
};

/// Two flops per weight that a token uses; the embedding is looked up.
bool is_multiplied(const ServingPart& p, const ParameterTensor& t) {
  const bool tied_head = t.name == "embedding" && p.part.last && p.model.tied_embeddings;
  return t.linear || t.name == "head.weight" || tied_head;
}

Stage make_stage(const Problem& problem, const Candidate& c, int number) {
  Stage stage{.part = serving_part(problem, c, number)};
  const std::vector<PartTensor> tensors = part_tensors(stage.part.model, stage.part.part);
  stage.weights = weight_bytes(stage.part, tensors);
  for (const PartTensor& each : tensors) {
    const ParameterTensor& t = each.tensor;
    const double elements = real(t.numel() * t.uses),
                 used = real(t.active_experts) / real(t.experts);
    if (t.experts > 1) {
      stage.expert_weights.emplace_back(elements, used);
    } else {
      stage.dense_weights += elements;
    }
    if (is_multiplied(stage.part, t)) stage.product_flops += 2 * elements * used;
  }
  return stage;
}

/// Bytes of weights that are read for one step: of experts those that any sequence is sent to, if
/// each chooses at will: all but the share (1 - k / n)^b.
double weights_read(const Stage& stage, std::int64_t sequences) {
  double read = stage.dense_weights, all = stage.dense_weights;
  for (const auto& [elements, used] : stage.expert_weights) {
    all += elements;
    read += elements * (1 - std::pow(1 - used, real(sequences)));
  }
  return all > 0 ? real(stage.weights.value) * read / all : 0;
}

/// Scores and weighted sums of one query against its context: 4 width tokens.
double attention_flops(const ServingPart& p, std::int64_t context) {
  double flops = 0;
  for (std::int64_t layer = 0; layer < p.part.layers; ++layer) {
    const BlockSpec& b = p.model.block(p.part.first_layer + layer);
    const BlockSpec share = tensor_share(b, p.part.tp);
    const std::int64_t seen = b.sliding_window > 0 ? std::min(context, b.sliding_window) : context;
    flops += 4 * real(share.heads * share.head_dim) * real(seen);
  }
  return flops;
}

struct StageBytes {
  Bytes weights, caches;
  PassBytes prefill, decode;

  PassBytes larger() const {
    return prefill.activations + prefill.logits < decode.activations + decode.logits ? decode
                                                                                     : prefill;
  }
};

StageBytes stage_bytes(const Stage& stage, std::int64_t context, std::int64_t sequences) {
  const ServingPart& p = stage.part;
  // The product is taken only where it is small.
  const std::int64_t read_at_once = context >= p.serving.prefill
                                        ? p.serving.prefill
                                        : std::min(p.serving.prefill, context * sequences);
  return {.weights = stage.weights,
          .caches = countable_bytes(real(cache_bytes(p, context).value) * real(sequences)),
          .prefill = pass_bytes(p, read_at_once, sequences),
          .decode = pass_bytes(p, sequences, sequences)};
}

Ledger ledger_of(const StageBytes& bytes) {
  Ledger at;
  at[Account::parameters] = bytes.weights;
  at[Account::kv_cache] = bytes.caches;
  at[Account::activations] = bytes.larger().activations;
  at[Account::logits] = bytes.larger().logits;
  return at;
}

/// Memory alone.
StageQuantities stage_memory(const StageBytes& bytes, DeviceKind device) {
  StageQuantities q;
  for (std::size_t i = 0; i < q.phases.size(); ++i) {
    PhaseBytes& phase = q.phases[i];
    phase.phase = static_cast<Phase>(i);
    phase.tensors[Account::parameters] = bytes.weights;
    if (phase.phase == Phase::forward) phase.tensors = ledger_of(bytes);
    phase.kernels = phase.tensors;
    // As in training, the matrix library's workspace is there from the first product on.
    const bool works = device == DeviceKind::cuda && phase.phase != Phase::load;
    if (works) phase.product = phase.kernels;
  }
  q.loaded = q.phases.front().tensors;
  q.preallocated = bytes.weights + bytes.caches;
  return q;
}

Transport transport_of(const Problem& problem) {
  return problem.cluster.device.kind == DeviceKind::cuda ? Transport::nccl : Transport::gloo;
}

void add_work(StageQuantities& q, const Problem& problem, const Candidate& c, const Stage& stage,
              const StageBytes& bytes) {
  const ServingPart& p = stage.part;
  const std::int64_t sequences = sequences_of(problem, c);
  q.forward.attention_flops =
      real(sequences) * (stage.product_flops + attention_flops(p, problem.workload.seq));
  q.forward.bytes = weights_read(stage, sequences) + real(bytes.caches.value);
  q.forward.launches = kKernelsPerBlock * real(p.part.layers);
  const double row = real(problem.model.hidden * bytes_of(p.storage) * sequences);
  const Collector collect(problem.cluster, transport_of(problem));
  const double sums = 2 * real(p.part.layers);
  collect.sum(q.waited, collect.party(c.tp, 1), sums, sums * row);
  if (!p.part.first) collect.send(q.waited, collect.party(2, c.tp), 1, row);
}

std::vector<Stage> make_stages(const Problem& problem, const Candidate& c) {
  std::vector<Stage> stages;
  for (int number = 0; number < c.pp; ++number) stages.push_back(make_stage(problem, c, number));
  return stages;
}

Quantities quantify(const Problem& problem, const Candidate& c, const std::vector<Stage>& stages) {
  Quantities q;
  const std::int64_t sequences = sequences_of(problem, c);
  for (const Stage& stage : stages) {
    const StageBytes bytes = stage_bytes(stage, problem.workload.seq, sequences);
    q.stages.push_back(stage_memory(bytes, problem.cluster.device.kind));
    add_work(q.stages.back(), problem, c, stage, bytes);
  }
  q.tokens = real(sequences);
  q.transport = transport_of(problem);
  q.model_flops = 2 * real(parameter_counts(problem.model).active) * q.tokens;
  return q;
}

/// The largest value in [0, most] for which `fits` holds, which it does up to some point.
std::int64_t largest(std::int64_t most, const std::function<bool(std::int64_t)>& fits) {
  std::int64_t low = 0, high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Whether every stage of the problem fits with another context and number of sequences.
class Fitting {
 public:
  Fitting(const Problem& problem, const std::vector<Stage>& stages, const Calibration& calibration)
      : device_(problem.cluster.device.kind),
        stages_(stages),
        pricer_(problem, serving_traits(), calibration) {}

  bool operator()(std::int64_t context, std::int64_t sequences) const {
    Quantities q;
    for (const Stage& stage : stages_) {
      q.stages.push_back(stage_memory(stage_bytes(stage, context, sequences), device_));
    }
    q.tokens = real(sequences);
    return pricer_.figures(q).fits;
  }

 private:
  DeviceKind device_;
  const std::vector<Stage>& stages_;
  Pricer pricer_;
};

constexpr std::int64_t kMostSequences = 1 << 20;
constexpr std::int64_t kMostContext = std::int64_t{1} << 30;

ServingEstimate serving_facts(const Problem& problem, const Candidate& c,
                              const std::vector<Stage>& stages, int worst,
                              const Calibration& calibration) {
  const Stage& stage = stages.at(static_cast<std::size_t>(worst));
  const std::int64_t context = problem.workload.seq, sequences = sequences_of(problem, c);
  const StageBytes bytes = stage_bytes(stage, context, sequences);
  const Fitting fits(problem, stages, calibration);
  const bool limited =
      problem.model.positions == Positions::rotary || problem.model.positions == Positions::learned;
  const std::int64_t longest =
      limited ? problem.model.max_positions : std::max(kMostContext, context);
  const WeightFormat* format = weight_format_of(problem);
  return {
      .weights = bytes.weights,
      .weight_format =
          format != nullptr ? format->name : std::string(word(problem.workload.recipe.storage)),
      .cache_per_token = cache_bytes_per_token(stage.part),
      .cache_per_sequence = cache_bytes(stage.part, context),
      .prefill = bytes.prefill.activations + bytes.prefill.logits,
      .decode = bytes.decode.activations + bytes.decode.logits,
      .sequences = sequences,
      .most_sequences = largest(kMostSequences, [&](std::int64_t n) { return fits(context, n); }),
      .longest_context = largest(longest, [&](std::int64_t n) { return fits(n, sequences); })};
}

/// What would do instead.
std::string too_large_text(const Problem& problem, const Candidate& c, const Estimate& estimate,
                           Bytes capacity) {
  const StageEstimate& peak = estimate.peak();
  const Bytes needed = peak.device_used.value_or(peak.accounts.allocated());
  const ServingEstimate& s = *estimate.serving;
  const WeightFormat* format = weight_format_of(problem);
  const bool wide = format == nullptr || bits_of(format->type) > 4;
  std::string change = fmt::format(
      "no batch and no context would fit: it needs more ranks (--tp, --pp){}{}",
      wide ? " or smaller weights (--quant)" : "",
      problem.workload.serving.page > problem.workload.seq ? ", and smaller pages (--kv-block)"
                                                           : "");
  if (s.most_sequences > 0) {
    change = fmt::format("--global-batch {} would fit", s.most_sequences * c.dp);
  } else if (s.longest_context > 0) {
    change = fmt::format("--seq {} would fit", s.longest_context);
  }
  return fmt::format(
      "no room for {} of {} tokens: {:.3f} GiB needed, {:.3f} GiB more than the {:.3f} "
      "GiB that a plan may fill; {}",
      s.sequences == 1 ? "a sequence" : fmt::format("{} sequences", s.sequences),
      problem.workload.seq, gib(needed), gib(needed - capacity), gib(capacity), change);
}

}  // namespace

Quantities quantify_serving(const Problem& problem, const Candidate& c) {
  return quantify(problem, c, make_stages(problem, c));
}

Estimate estimate_serving(const Problem& problem, const Candidate& given,
                          const Calibration& calibration) {
  const TargetTraits traits = serving_traits();
  const Candidate c = as_served(problem, given);
  Problem served = problem;
  served.target = traits.name;  // what a refusal names: of training the target may well have it
  if (const auto broken = broken_rule(served, traits, c)) {
    return invalid_estimate(problem, *broken, calibration);
  }
  const std::vector<Stage> stages = make_stages(problem, c);
  Estimate estimate =
      Pricer(problem, traits, calibration).estimate(c, quantify(problem, c, stages));
  const double ranks_of_each = c.tp * c.pp;
  estimate.tokens_per_second_per_device =
      real(sequences_of(problem, c)) / ranks_of_each / estimate.step_time.value;
  estimate.mfu.reset();  // a step for one token is bound by memory, and this says nothing of it
  estimate.serving = serving_facts(problem, c, stages, estimate.peak_stage, calibration);
  if (estimate.verdict == Verdict::too_large) {
    estimate.reason = too_large_text(problem, c, estimate, capacity(problem));
  }
  return estimate;
}

}  // namespace planwright::estimator
