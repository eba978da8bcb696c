#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"

/// Plans beside one that every emitter writes, each by what is changed.
namespace planwright::testing {

using Change = std::function<void(Problem&, Candidate&)>;

Change zero(int stage, RecomputeKind recompute = RecomputeKind::none, int micro_batch = 1);
Change operator+(const Change& first, const Change& second);
Change offload(const char* parts, OffloadTo to = OffloadTo::cpu);
Change recompute(const char* text);
Change precision(Precision word, const PrecisionRecipe& recipe);
Change fp32();
Change fp16();
Change pure_bf16();
Change gradients_in(DType type);
Change optimizer(OptimizerKind kind);
Change knob(const char* name, const char* value);
/// Model ranks take the place of data ranks.
Change ranks(int tp, int pp = 1, int cp = 1);
Change sp();
Change replicas(int hsdp);
Change nodes(int count);
Change cpu_ranks(int count);
Change schedule(Schedule kind, int vpp);
Change uneven(std::vector<std::int64_t> blocks);
Change sizes(std::int64_t hidden, std::int64_t layers, std::int64_t ffn, std::int64_t vocab);
Change qwen3(bool tied);
Change experts(std::int64_t count, int ep);
/// The weights are there before.
Change tuned();

}  // namespace planwright::testing
