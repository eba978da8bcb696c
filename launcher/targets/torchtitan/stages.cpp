#include "launcher/targets/torchtitan/stages.h"

#include "estimator/spec/model_part.h"

namespace planwright::targets::torchtitan {
namespace {

/// The pipeline unrolled: each virtual stage as if it were a stage.
std::vector<std::int64_t> virtual_stage_layers(const ModelSpec& model, Candidate candidate) {
  candidate.pp *= candidate.vpp;
  candidate.vpp = 1;
  return stage_layers(model, candidate);
}

}  // namespace

std::vector<std::vector<std::string>> modules_by_stage(const ModelSpec& model,
                                                       const Candidate& candidate,
                                                       const std::string& head) {
  std::vector<std::vector<std::string>> stages;
  std::int64_t layer = 0;
  for (const std::int64_t blocks : virtual_stage_layers(model, candidate)) {
    std::vector<std::string> modules;
    for (std::int64_t i = 0; i < blocks; ++i) {
      modules.push_back("layers." + std::to_string(layer++));
    }
    stages.push_back(std::move(modules));
  }
  stages.front().insert(stages.front().begin(), "tok_embeddings");
  stages.back().insert(stages.back().end(), {"norm", head});
  return stages;
}

std::string schedule_name(Schedule schedule) {
  switch (schedule) {
    case Schedule::gpipe:
      return "GPipe";
    case Schedule::one_f_one_b:
      return "1F1B";
    case Schedule::interleaved:
      return "Interleaved1F1B";
    case Schedule::zero_bubble:
      return "InterleavedZeroBubble";
  }
  return "";
}

}  // namespace planwright::targets::torchtitan
