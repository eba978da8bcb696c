#include "studies/optuna_map.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"

namespace planwright::studies {
namespace {

// Wide enough for any job there will be; log, because these axes are powers of two in practice.
constexpr int kMaxDegree = 65536;
constexpr int kMaxZero = 3;
constexpr int kMaxRecomputeLayers = 1024;

struct IntegerAxis {
  const char* name;
  int low, high;
  bool log;
};

OptunaParameter integer(const IntegerAxis& axis, int value) {
  if (value < axis.low || value > axis.high) {
    throw InputError({"", axis.name, std::to_string(value),
                      fmt::format("must lie between {} and {} to be stored", axis.low, axis.high),
                      ""});
  }
  return {axis.name, static_cast<double>(value),
          fmt::format(
              R"({{"name": "IntDistribution", "attributes": {{"log": {}, "step": 1, "low": {}, )"
              R"("high": {}}}}})",
              axis.log, axis.low, axis.high)};
}

OptunaParameter degree(const char* name, int value) {
  return integer({name, 1, kMaxDegree, true}, value);
}

OptunaParameter choice(const char* name, const std::vector<std::string>& choices,
                       std::size_t index) {
  std::string list;
  for (const auto& each : choices) list += fmt::format(R"({}"{}")", list.empty() ? "" : ", ", each);
  return {name, static_cast<double>(index),
          fmt::format(R"({{"name": "CategoricalDistribution", "attributes": {{"choices": [{}]}}}})",
                      list)};
}

template <class Enum>
OptunaParameter word_choice(const char* name, Enum value) {
  return choice(name, all_words<Enum>(), static_cast<std::size_t>(value));
}

/// Every set of parts, smaller sets first; each spelled as the command line does.
constexpr std::array<Offload, 8> kOffloads{{
    {false, false, false},
    {true, false, false},
    {false, true, false},
    {false, false, true},
    {true, true, false},
    {true, false, true},
    {false, true, true},
    {true, true, true},
}};

OptunaParameter offload_choice(const Offload& offload) {
  std::vector<std::string> choices;
  std::size_t index = 0;
  for (std::size_t i = 0; i < kOffloads.size(); ++i) {
    Offload each = kOffloads[i];
    choices.push_back(offload_text(each));
    each.to = offload.to;
    if (each == offload) index = i;
  }
  return choice("offload", choices, index);
}

/// What ran full is short of at least one byte, even where fragmentation hides it from the sum.
Bytes shortfall(const OutOfMemory& full) {
  const Bytes held = std::max(full.allocated, full.reserved.value_or(full.allocated));
  return std::max(held + full.requested - full.capacity, Bytes{1});
}

Json stages_json(const std::vector<StagePlan>& stages) {
  Json json = Json::array();
  for (const StagePlan& stage : stages) {
    json.push_back({{"blocks", stage.blocks},
                    {"recompute", recompute_text(stage.recompute)},
                    {"offload", offload_text(stage.offload)}});
  }
  return json;
}

Json predicted_json(const Estimate& estimate) {
  Json json{{"step_time_s", estimate.step_time.value},
            {"tokens_per_second_per_device", estimate.tokens_per_second_per_device},
            {"fit_probability", estimate.fit_probability}};
  if (!estimate.stages.empty()) {
    json["allocated_bytes"] = estimate.peak().accounts.allocated().value;
  }
  return json;
}

}  // namespace

std::vector<OptunaParameter> optuna_parameters(const Candidate& candidate) {
  return {
      degree("tp", candidate.tp),
      degree("pp", candidate.pp),
      degree("vpp", candidate.vpp),
      degree("cp", candidate.cp),
      degree("ep", candidate.ep),
      degree("etp", candidate.etp),
      integer({"zero", 0, kMaxZero, false}, candidate.zero),
      degree("hsdp", candidate.hsdp),
      choice("sp", {"off", "on"}, candidate.sp ? 1 : 0),
      degree("micro_batch", candidate.micro_batch),
      word_choice("schedule", candidate.schedule),
      word_choice("recompute", candidate.recompute.kind),
      integer({"recompute_k", 0, kMaxRecomputeLayers, false}, candidate.recompute.k),
      offload_choice(candidate.offload),
      word_choice("offload_to", candidate.offload.to),
      word_choice("attention", candidate.attention),
      word_choice("loss", candidate.loss),
  };
}

OptunaResult optuna_result(const Trial& trial, Bytes capacity) {
  if (const OutOfMemory* full = trial.outcome.out_of_memory()) {
    return {TrialState::pruned, std::nullopt, shortfall(*full)};
  }
  const Measurement* measured = trial.outcome.measurement();
  if (measured == nullptr) return {TrialState::fail, std::nullopt, std::nullopt};
  const double rate = measured->tokens_per_second_per_device;
  if (!std::isfinite(rate) || rate <= 0) return {TrialState::fail, std::nullopt, std::nullopt};
  const Bytes excess = measured->allocated_peak() - capacity;
  if (excess > Bytes{0} || trial.scope.kind != ScopeKind::full) {
    return {TrialState::pruned, std::nullopt, excess};
  }
  return {TrialState::complete, rate, excess};
}

Attributes proposal_attributes(const Proposal& proposal) {
  const Candidate& candidate = proposal.candidate;
  Attributes attributes{{"planwright:dp", candidate.dp},
                        {"planwright:scope", word(proposal.scope.kind)},
                        {"planwright:why", proposal.why},
                        {"planwright:predicted", predicted_json(proposal.estimate)}};
  if (!candidate.recompute.modules.empty()) {
    attributes.emplace_back("planwright:recompute_modules", candidate.recompute.modules);
  }
  if (!candidate.knobs.empty()) {
    Json knobs = Json::object();
    for (const auto& [name, value] : candidate.knobs) knobs[name] = value;
    attributes.emplace_back("planwright:knobs", knobs);
  }
  if (!candidate.stages.empty()) {
    attributes.emplace_back("planwright:stages", stages_json(candidate.stages));
  }
  return attributes;
}

namespace {

template <class Enum>
Json word_or_null(const std::optional<Enum>& value) {
  return value ? Json(word(*value)) : Json();
}

}  // namespace

Attributes outcome_attributes(const Outcome& outcome) {
  Attributes attributes{{"planwright:outcome", word(outcome.kind())}};
  if (const Measurement* measured = outcome.measurement()) {
    attributes.emplace_back(
        "planwright:measured",
        Json{{"step_time_s", measured->step_time_s},
             {"tokens_per_second_per_device", measured->tokens_per_second_per_device},
             {"allocated_bytes", measured->allocated_peak().value}});
  } else if (const OutOfMemory* full = outcome.out_of_memory()) {
    attributes.emplace_back("planwright:measured", Json{{"requested_bytes", full->requested.value},
                                                        {"allocated_bytes", full->allocated.value},
                                                        {"capacity_bytes", full->capacity.value},
                                                        {"account", word_or_null(full->account)},
                                                        {"phase", word_or_null(full->phase)},
                                                        {"rank", full->rank}});
  } else if (const Failure* failure = outcome.failure()) {
    attributes.emplace_back("planwright:detail", failure->detail);
  }
  return attributes;
}

}  // namespace planwright::studies
