#pragma once

#include <array>
#include <string>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"

namespace planwright::testing {

/// Plans of the built-in runtime on up to eight ranks: every parallel axis and every way to
/// recompute alone, then in combinations.
const std::vector<Candidate>& layouts();

/// Models whose vocabulary and layers no layout divides evenly.
enum class LayoutModel {
  gpt_tied,     ///< learned positions, biases and a tied head
  llama,        ///< rotary positions, grouped heads and a head of its own
  gpt_dropout,  ///< the first with dropout everywhere
  qwen,         ///< the second with normed queries and keys and a sliding window
  neox,         ///< parallel residual with two norms
  gptj,         ///< parallel residual with one
  llama_lora,   ///< the second with adapters on parts of its fused matrices
  gptj_lora     ///< the sixth with adapters on whole ones
};
inline constexpr std::array kLayoutModels{
    LayoutModel::gpt_tied, LayoutModel::llama, LayoutModel::gpt_dropout, LayoutModel::qwen,
    LayoutModel::neox,     LayoutModel::gptj,  LayoutModel::llama_lora,  LayoutModel::gptj_lora};
ModelSpec layout_model(LayoutModel which);

/// Kernels of attention and loss and what is recomputed between them, over few of the layouts: with
/// the first two models each alone, with the others in turns.
std::vector<Candidate> technique_layouts(LayoutModel which);

/// These, and with the first two models all of layouts().
std::vector<Candidate> layouts_of(LayoutModel which);

/// The whole batch at once in one process.
Candidate reference_layout(LayoutModel which);

/// What the layouts train: 16 sequences of 24 tokens a step.
Problem layout_problem(LayoutModel which, const Candidate& candidate, Precision precision);

}  // namespace planwright::testing
