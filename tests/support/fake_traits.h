#pragma once

#include <cstdint>

#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"

/// A small target and small problems for tests that need any, but no real one.
namespace planwright::testing {

/// A data-parallel target: bf16 with fp32 gradients and master weights (18 bytes a parameter under
/// AdamW), fp32 (16) and fp64 (32); ZeRO 0 and 1; recompute none and full; two rules. A gradient
/// bucket closes at `bucket_elements`.
TargetTraits fake_traits(std::int64_t bucket_elements = 4096);
/// The same, with the knobs overlap (off, on) and buckets (small, large).
TargetTraits fake_traits_with_knobs();

/// Two blocks of the GPT kind: layer norm, learned positions, biases, plain MLP.
ModelSpec tiny_gpt();
/// Two blocks of the Llama kind: RMS norm, rotary positions, grouped heads, gated MLP.
ModelSpec tiny_llama();

/// `model` on `devices` CPU devices of 1 GiB in one node, one thread each, sequences of 16 tokens,
/// 8 of them per step, no headroom.
Problem fake_problem(const ModelSpec& model, int devices, Precision precision);

/// `dp` ranks with ZeRO stage `zero`.
Candidate data_parallel(int dp, int zero, int micro_batch,
                        RecomputeKind recompute = RecomputeKind::none);

}  // namespace planwright::testing
