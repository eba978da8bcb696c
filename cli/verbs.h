#pragma once

#include "cli/verb.h"

/// One file per verb. Each returns the exit code of CLI.md and throws InputError, WorldError or
/// launcher::Interrupted for the ends that are not a result.
namespace planwright::cli {

int run_estimate(const Arguments& arguments);
int run_plan(const Arguments& arguments);
int run_probe(const Arguments& arguments);
int run_tune(const Arguments& arguments);
int run_emit(const Arguments& arguments);
int run_history(const Arguments& arguments);
int run_score(const Arguments& arguments);
int run_devices(const Arguments& arguments);
int run_models(const Arguments& arguments);
int run_doctor(const Arguments& arguments);

constexpr int kExitDone = 0;
constexpr int kExitWorldFailed = 1;
constexpr int kExitWrongInput = 2;
constexpr int kExitNothingFeasible = 3;
constexpr int kExitInterrupted = 130;

}  // namespace planwright::cli
