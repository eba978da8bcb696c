#include "launcher/targets/shared/loading.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/torch_words.h"

namespace planwright::targets {
namespace {

int ranks_of_a_node(const Problem& problem) {
  return std::min(problem.cluster.per_node, problem.cluster.devices());
}

/// A rank of a CPU trains what it has loaded, weights of 4 bits go to their device as they are
/// packed, and ranks of DeepSpeed's zero 3 load their parts.
bool loads_on_host(const Problem& problem, const Candidate& candidate, Sharder sharder) {
  if (problem.cluster.device.kind == DeviceKind::cpu || problem.workload.serving.weights) {
    return false;
  }
  return sharder != Sharder::deepspeed || candidate.zero < 3;
}

/// DeepSpeed makes masters of what it is given, and of a frozen model nothing is updated.
DType loaded_type(const Problem& problem, Sharder sharder) {
  const PrecisionRecipe& recipe = problem.workload.recipe;
  const bool narrow = sharder == Sharder::deepspeed || problem.model.lora.freezes();
  return narrow ? recipe.compute : updated_type(recipe);
}

}  // namespace

std::string load_warning(const Problem& problem, Sharder sharder) {
  const std::string type = torch_name(loaded_type(problem, sharder));
  return fmt::format("weights of {} are your script's to load: from_pretrained(dtype=torch.{})",
                     type, type);
}

/// Of FSDP's ranks the first one loads, as cpu_ram_efficient_loading has it. Sources:
/// huggingface/transformers src/transformers/modeling_utils.py, from_pretrained @ v5.23.0;
/// huggingface/accelerate src/accelerate/utils/fsdp_utils.py @ v1.15.0.
std::vector<std::string> loading_warnings(const Problem& problem, const Candidate& candidate,
                                          Sharder sharder) {
  if (!loads_on_host(problem, candidate, sharder)) return {};
  const DType type = loaded_type(problem, sharder);
  const int copies = sharder == Sharder::fsdp ? 1 : ranks_of_a_node(problem);
  const Bytes needed{copies * parameter_counts(problem.model).total * bytes_of(type)};
  const std::optional<Bytes>& memory = problem.cluster.host_memory;
  if (memory && *memory >= needed) return {};
  const std::string who = sharder == Sharder::fsdp ? "rank 0 loads"
                          : copies == 1            ? "each rank loads"
                                        : fmt::format("each of a node's {} ranks loads", copies);
  const std::string room = memory ? fmt::format(", which is {:.1f} GiB", gib(*memory)) : "";
  return {fmt::format("{} all weights in {} before training: {:.1f} GiB of the host's memory{}",
                      who, torch_name(type), gib(needed), room)};
}

/// bitsandbytes packs what is loaded; of other formats the checkpoint is packed. Source:
/// huggingface/transformers src/transformers/quantizers/auto.py @ v5.23.0.
void warn_of_format(launcher::LaunchConfig& config, const Problem& problem) {
  const auto& format = problem.workload.serving.weights;
  if (!format) return;
  const bool packed_as_loaded = format->name.starts_with("nf4") || format->name == "int8";
  config.warnings.push_back(fmt::format(
      "the weights' format {} is your script's to load: from_pretrained({})", format->name,
      packed_as_loaded ? "quantization_config=BitsAndBytesConfig(...)"
                       : "of a checkpoint that has it"));
}

}  // namespace planwright::targets
