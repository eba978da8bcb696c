#pragma once

#include <algorithm>
#include <map>
#include <string>

#include "cli/row_problem.h"
#include "cli/targets.h"

/// Rows of published tables, cell by cell.
namespace planwright::testing {

using cli::MeasuredRow;
using Cells = std::map<std::string, std::string>;

/// Llama 2 7B, fully sharded over 8 devices by FSDP.
inline const Cells kBase{
    {"model", "some Llama"}, {"layers", "32"},    {"hidden", "4096"},   {"heads", "32"},
    {"kv_heads", "32"},      {"ffn", "11008"},    {"vocab", "32000"},   {"tied", "0"},
    {"act", "swiglu"},       {"seq_len", "2048"}, {"n_gpus", "8"},      {"gpu", "A100-SXM4-80GB"},
    {"framework", "fsdp"},   {"zero", "3"},       {"micro_batch", "2"}, {"precision", "bf16"}};

/// The base with other cells; an empty one is not filled in.
inline MeasuredRow row_with(const Cells& changed) {
  Cells cells = kBase;
  for (const auto& [column, text] : changed) cells[column] = text;
  MeasuredRow row;
  row.id = "a";
  for (const auto& [column, text] : cells) {
    if (!text.empty()) row.set(column, text);
  }
  return row;
}

inline cli::RowProblem problem_with(const Cells& changed) {
  return cli::problem_of(row_with(changed));
}

inline Candidate candidate_with(const Cells& changed) {
  return problem_with(changed).one.candidate;
}
inline Problem spec_with(const Cells& changed) { return problem_with(changed).one.input.problem; }
inline ModelSpec model_with(const Cells& changed) { return spec_with(changed).model; }

inline bool assumes(const cli::RowProblem& problem, const std::string& what) {
  return std::find(problem.assumed.begin(), problem.assumed.end(), what) != problem.assumed.end();
}

}  // namespace planwright::testing
