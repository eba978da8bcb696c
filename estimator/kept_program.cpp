#include "estimator/kept_program.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

namespace planwright::estimator {
namespace {

/// That of `all` which `is`, or else a new one.
template <class T, class Is, class Make>
const T& found_or_made(std::vector<std::unique_ptr<const T>>& all, const Is& is, const Make& make) {
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return is(*each); });
  if (found != all.end()) return **found;
  return *all.emplace_back(std::make_unique<const T>(make()));
}

}  // namespace

KeptProgram::KeptProgram(const StepShape& shape, bool keeps_scripts)
    : program_(step_program(shape)),
      boundary_(program_->boundary()),
      page_locks_(shape.activations.pinned),
      keeps_scripts_(keeps_scripts) {}

Effect KeptProgram::kept(Script script) const {
  Effect effect = effect_of(std::move(script), page_locks_);
  if (!keeps_scripts_) effect.script = {};
  return effect;
}

KeptProgram::Head KeptProgram::kept(const StepProgram::Head& head) const {
  Head all{kept(head.before), {}, kept(head.after), kept(head.weights)};
  for (const StepProgram::Chunk& chunk : head.chunks) {
    all.chunks.push_back({chunk.count, kept(chunk.forward), kept(chunk.loss),
                          kept(chunk.loss_backward), kept(chunk.product_backward),
                          kept(chunk.backward)});
  }
  return all;
}

const Effect& KeptProgram::embedding() {
  if (!embedding_) embedding_ = std::make_unique<const Effect>(kept(program_->embedding()));
  return *embedding_;
}

const Effect& KeptProgram::embedding_backward() {
  if (!embedding_backward_) {
    embedding_backward_ = std::make_unique<const Effect>(kept(program_->embedding_backward()));
  }
  return *embedding_backward_;
}

const Effect& KeptProgram::block(Turn turn, bool keeps_input, const BlockSpec& block) {
  const auto is = [&](const Block& each) {
    return each.turn == turn && each.keeps_input == keeps_input && each.block == block;
  };
  return found_or_made(blocks_, is,
                       [&] {
                         return Block{turn, keeps_input, block,
                                      kept(program_->block(turn, keeps_input, block))};
                       })
      .effect;
}

const KeptProgram::Head& KeptProgram::known(std::vector<std::unique_ptr<const KnownHead>>& heads,
                                            const BlockSpec& last,
                                            StepProgram::Head (StepProgram::*made)(const BlockSpec&)
                                                const) {
  return found_or_made(
             heads, [&](const KnownHead& each) { return each.last == last; },
             [&] {
               return KnownHead{last, kept((*program_.*made)(last))};
             })
      .head;
}

const KeptProgram::Head& KeptProgram::head(const BlockSpec& last) {
  return known(heads_, last, &StepProgram::head);
}

const KeptProgram::Head& KeptProgram::head_in_two(const BlockSpec& last) {
  return known(heads_in_two_, last, &StepProgram::head_in_two);
}

std::size_t KeptPrograms::Hash::operator()(const StepShape& s) const {
  std::size_t hash = 0;
  for (const std::int64_t each :
       {s.batch, s.cp, s.tp, s.ep, s.etp, s.vocab, s.dropped_blocks, std::int64_t{s.sp},
        std::int64_t{s.again.core_attn}, std::int64_t{s.saves_ops}, std::int64_t{s.sums_gradients},
        std::int64_t{s.torch_stages}, static_cast<std::int64_t>(s.attention),
        static_cast<std::int64_t>(s.loss), static_cast<std::int64_t>(s.activations.leaving)}) {
    hash = hash * 1000003 + std::hash<std::int64_t>()(each);
  }
  return hash;
}

KeptProgram& KeptPrograms::of(const StepShape& shape) {
  return programs_.try_emplace(shape, shape, keeps_scripts_).first->second;
}

}  // namespace planwright::estimator
