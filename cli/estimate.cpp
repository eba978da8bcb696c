#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/other_targets.h"
#include "cli/print_estimate.h"
#include "cli/print_links.h"
#include "cli/prior.h"
#include "cli/problem_input.h"
#include "cli/saved_plan.h"
#include "cli/verbs.h"
#include "estimator/quantities.h"
#include "estimator/serving.h"
#include "estimator/spec/json_fields.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "estimate",
    .summary = "What one candidate needs in memory and time; nothing is started.",
    .arguments = "[FILE.toml]",
    .example =
        "planwright estimate --model llama-2-7b --device A100-SXM4-80GB --devices 8 --seq 4096 "
        "--global-batch 64 --zero 1 --recompute full",
    .tables = {Table::model, Table::cluster, Table::job, Table::candidate},
    .own = {"save-plan"},
    .most_words = 1,
    .takes_file = true,
    .takes_command = true,
};

/// What each stage holds in each phase, as the kernels and the target's holdings say, before any
/// calibration.
Json phases_json(const Problem& problem, const TargetTraits& traits, const Candidate& candidate) {
  Json phases = Json::array();
  int number = 0;
  for (const auto& stage : estimator::quantify(problem, traits, candidate).stages) {
    for (const estimator::PhaseBytes& phase : stage.phases) {
      phases.push_back({{"stage", number},
                        {"phase", word(phase.phase)},
                        {"allocated_bytes", phase.kernels.allocated().value},
                        {"tensor_bytes", phase.tensors.tensors().value},
                        {"accounts", json_io::encode_accounts(phase.kernels, false)}});
    }
    ++number;
  }
  return phases;
}

int exit_code(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      return kExitDone;
    case Verdict::too_large:
      return kExitNothingFeasible;
    case Verdict::invalid:
      break;
  }
  return kExitWrongInput;
}

}  // namespace

int run_estimate(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  const auto [input, candidate, place] = read_one_candidate(line.settings);
  console.warnings(input.warnings);
  const Setting* file = line.settings.find(Table::none, "save-plan");
  if (file != nullptr) require_savable(*file, input.problem);
  const Calibration prior = read_prior(input, line.settings, Benchmark::if_known, console);
  Estimate estimate = input.problem.workload.job == Job::inference
                          ? estimator::estimate_serving(input.problem, candidate, prior)
                          : estimator::estimate(input.problem, input.traits(), candidate, prior);

  if (estimate.verdict == Verdict::invalid) {
    estimate.reason = with_other_targets(estimate.reason, line.settings, accepts_candidate);
  }
  console.print(
      estimate_text(input.problem, input.traits(), candidate, estimate, console.result_paint()));
  const auto assumed = assumptions(input, candidate.offload);
  console.print(assumed_text(assumed) + links_text(input));
  Json json{{"schema", "planwright.estimate/1"}};
  json.update(estimate_json(input.problem, input.traits(), candidate, estimate));
  json["assumed"] = assumed;
  json["links"] = links_json(input);
  if (estimate.verdict != Verdict::invalid && input.problem.workload.job != Job::inference) {
    json["phases"] = phases_json(input.problem, input.traits(), candidate);
  }
  console.print_json(json);
  if (console.json() && !estimate.reason.empty()) console.failure(place + estimate.reason);
  if (file != nullptr && estimate.verdict == Verdict::fits) {
    save_plan(*file, input.problem, candidate, console);
  } else if (file != nullptr) {
    const bool is_legal = estimate.verdict != Verdict::invalid;
    console.warning(fmt::format("{} is not written: the plan {}", file->text,
                                is_legal ? "does not fit" : "breaks a rule"));
  }
  return exit_code(estimate.verdict);
}

}  // namespace planwright::cli
