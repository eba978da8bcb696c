#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/activation_offload.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/hf_modules.h"
#include "estimator/spec/ledger.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/sharding.h"
#include "estimator/spec/te_modules.h"
#include "estimator/spec/words.h"

namespace planwright {

struct FlatTensor;

/// What a holding has one element for.
enum class HoldingOf {
  flat_parameters,    ///< every trained parameter, padding of the flat layout included
  frozen_parameters,  ///< the same of those that are not trained
  trained,            ///< every trained parameter and no padding
  frozen,             ///< every parameter that is not trained and no padding
  quantised,          ///< frozen linear matrices as --quant packs them, in bytes
  quantisation,       ///< scales and the like of those, in bytes
  trained_tensors,    ///< each trained tensor; of a fused matrix each of its parts
  largest_tensor,     ///< those of the largest trained one; of a fused matrix the largest part's
  largest_unit,       ///< of the unit that has most, trained or frozen (ModelPart)
  bucket,             ///< a bucket's elements (TargetTraits::bucket_elements), whatever the model
  filled_bucket,      ///< the same, or every trained parameter where those are fewer
  rope_table,         ///< cosine and sine, seq × head_dim / 2 each (none with learned positions)
  step_counters,      ///< one scalar
  distinct_matrices,  ///< of each shape that trained matrices of blocks have, one
  factored_moments,   ///< a row and a column statistic per matrix, vectors whole: Adafactor's
  narrow_copies,      ///< of trained matrices of blocks what products in 8 bits take, in bytes
};

/// By what a holding's elements are divided. The last two are of parameters without padding, and
/// of the rank that has most.
enum class ShardedBy {
  nothing,
  data_ranks,   ///< all of them in a row, into equal parts
  each_tensor,  ///< each tensor, fused ones part by part, into equal parts
  each_row,     ///< each tensor's rows, of fused ones part by part
};

/// Where a rank keeps a holding: on its device, in its host's memory, or on a disk of the host's.
enum class Home { device, host, disk };

/// A tensor, or a family of tensors, that a target keeps from one phase to another. Data, so that
/// someone who knows the target can check it line by line.
struct Holding {
  Account account = Account::parameters;
  HoldingOf of = HoldingOf::flat_parameters;
  std::function<std::int64_t(const PrecisionRecipe&)> bytes_each;
  int copies = 1;
  ShardedBy (*sharded_by)(const Candidate&) = nullptr;
  Phase from = Phase::load;
  Phase to = Phase::optimizer;
  std::function<bool(const Problem&, const Candidate&)> when{};  ///< empty: always
  const char* source = "";
  bool (*takes)(const FlatTensor&) = nullptr;  ///< of the tensors those; null: all
  std::int64_t at_most = 0;                    ///< elements of one copy; 0: any number
  /// Gradients that a step's first backward makes tensor by tensor, and that are whole from then
  /// on; `from` is backward. With `to` backward as well each micro-batch's makes its own, which go
  /// when it has ended.
  bool grows = false;
  /// Of each backward not from its beginning on, but from its first gradient; `from` and `to` are
  /// backward.
  bool with_gradients = false;
  Home (*home)(const Candidate&) = nullptr;  ///< null: on the device
  /// At home in the host's memory it is page-locked: torch rounds each allocation up to a power of
  /// two of bytes. By rows each tensor is one, else all that the holding is.
  bool pinned = false;
};

/// Whose order of allocations a step follows (estimator/liveness). in_place: docs/runtime.md;
/// composed: the same step out of the tensor library's own operators, as on an accelerator;
/// transformer_engine: estimator/te_program; transformers: estimator/hf_program; flash_attn:
/// estimator/fa_program; litgpt: estimator/lit_program; apex: estimator/apex_program;
/// torch_modules: blocks out of torch's own modules, estimator/torch_program.
enum class KernelSet {
  in_place,
  composed,
  transformer_engine,
  transformers,
  flash_attn,
  litgpt,
  apex,
  torch_modules
};
template <>
struct Words<KernelSet> {
  static constexpr std::array<std::string_view, 8> kWords{
      "in_place", "composed", "transformer_engine", "transformers", "flash_attn",
      "litgpt",   "apex",     "torch_modules"};
};

/// Whether they are the framework's own, and not like them.
constexpr bool is_known_framework(KernelSet kernels) {
  return kernels != KernelSet::in_place && kernels != KernelSet::composed;
}

/// How the target's collectives are carried out over one kind of device.
enum class Transport {
  gloo,  ///< reduce-scatter is an all-reduce of the bucket, all-gather a broadcast per owner
  nccl,  ///< ring reduce-scatter and all-gather, in place
};

/// How ranks that have a part of a sequence each attend to all of it.
enum class Exchange {
  ring,       ///< keys and values go round
  all_to_all  ///< each gets all tokens of some of the heads
};

/// A condition that a legal candidate meets. `broken` is true where it does not; `text` and `fix`
/// may name {tp}, {devices} and the like (fill_rule_text).
struct Rule {
  std::string name;
  std::function<bool(const Problem&, const Candidate&)> broken;
  std::string text;
  std::string fix;
  std::string source;
};

/// A dimension of the target's own. The first value is the default.
struct Knob {
  std::string name;
  std::vector<std::string> values;
  std::string effect;
};

/// The values of the uniform axes that the target can run at all; a free axis takes each of them.
struct SupportedAxes {
  std::vector<int> tp{1}, pp{1}, vpp{1}, cp{1}, ep{1}, etp{1}, zero{0}, hsdp{1};
  std::vector<bool> sp{false};
  bool sp_with_tp = false;  ///< of several tensor ranks where nobody says otherwise
  std::vector<Schedule> schedule{Schedule::one_f_one_b};
  std::vector<Recompute> recompute{Recompute{}};
  std::vector<std::string> recompute_modules;  ///< any of which selective may name
  std::vector<Offload> offload{Offload{}};
  std::vector<AttentionKernel> attention{AttentionKernel::flash};
  std::vector<LossKernel> loss{LossKernel::plain};
  /// What to do about a value that an axis, named as its flag with `_` for `-`, does not have,
  /// where it is not to use another value.
  std::map<std::string, std::string> fixes;
};

/// What a target keeps and does, for everyone who must not know its name.
struct TargetTraits {
  std::string name;
  std::string version;
  int revision = 1;
  std::vector<Holding> holdings;
  std::vector<Rule> rules;
  std::vector<Knob> knobs;
  SupportedAxes axes;
  /// The types kept for a `--precision` word; nullopt if the target cannot run it.
  std::function<std::optional<PrecisionRecipe>(Precision)> recipe;
  std::function<KernelSet(DeviceKind)> kernels;
  /// Of the kernel sets transformers and torch_modules.
  std::function<HfModules(const Problem&, const Candidate&)> modules{};
  /// Of the kernel set transformer_engine; null: as they come.
  TeModules (*te_modules)(const Candidate&) = nullptr;
  std::function<Transport(DeviceKind)> transport;
  /// Elements after which a gradient bucket of the flat layout closes.
  std::function<std::int64_t(const Candidate&)> bucket_elements;
  /// Whether the data ranks' collectives are carried out beside the passes.
  std::function<bool(const Candidate&)> overlaps;
  std::function<Sharding(const Problem&, const Candidate&)> sharding = flat_sharding;
  Exchange (*exchange)(const Candidate&) = nullptr;
  /// Of the kernel set flash_attn: whether the rows that a product has gathered stay for its
  /// backward, which else gathers them again; null: they do not.
  bool (*keeps_gathered)(const Candidate&) = nullptr;
  /// Of a plan that offloads activations.
  std::function<ActivationOffload(const Problem&, const Candidate&)> activation_offload{};
  /// Blocks of each stage where a plan leaves them to the target; null: as even as can be.
  std::vector<std::int64_t> (*stage_layers)(const ModelSpec&, int stages) = nullptr;
  /// Groups of ranks that a rank has communicators for, whose buffers it holds; null: one.
  int (*communicators)(const Problem&, const Candidate&) = nullptr;
  bool experts_apart = false;  ///< in buffers of their own, sharded over the ranks that hold them
  /// Rows of the embedding and the head, padding included; null: the vocabulary's.
  std::int64_t (*padded_vocab)(std::int64_t vocab, const Candidate&) = nullptr;
  /// The optimizer makes states of its weights' type: another type of states is the weights' too.
  bool states_like_weights = false;
  /// Its kernels are the user's framework's: the scripts are only like them.
  bool stand_in_kernels = false;
};

/// What a text may call by name: every axis of the candidate by its flag's name (`micro_batch`),
/// `world`, `accumulation`, `devices`, `per_node`, `nodes`, `device`, `global_batch`, `seq`,
/// `precision`, `optimizer`, `target`, and of the model `heads`, `kv_heads`, `layers`, `hidden`,
/// `max_positions`, `sliding_window`.
using NamedValues = std::vector<std::pair<std::string_view, std::string>>;
NamedValues named_values(const Problem& problem, const Candidate& candidate);

/// Fills the {name} placeholders of a rule's text or fix. An unknown name stays as it is.
std::string fill_rule_text(const std::string& text, const Problem& problem,
                           const Candidate& candidate);

}  // namespace planwright
