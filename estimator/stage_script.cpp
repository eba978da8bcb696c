#include "estimator/stage_script.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "estimator/stage_run.h"

namespace planwright::estimator {

void StageRun::compare(std::vector<Turn>& turns) {
  for (std::size_t i = turns.size(); i-- > 0;) {
    const bool more = i + 1 < turns.size() && turns[i].looks_like(turns[i + 1]);
    turns[i].alike = more ? turns[i + 1].alike + 1 : 1;
  }
}

/// Behind the `block`-th of a chunk of so many.
InputCopies StageRun::copies_forward(std::int64_t block, std::int64_t blocks) const {
  if (!sends_inputs()) return {};
  const ActivationOffload& a = s_.shape.activations;
  InputCopies inputs{.sent = block >= a.kept, .dropped = block >= a.follow};
  const bool last = block + 1 == blocks;
  if (last) {
    const auto left = [&](int count) { return std::min<std::int64_t>(count, blocks); };
    inputs.dropped += static_cast<int>(left(a.follow) - left(a.found));
  }
  return inputs;
}

/// Before the backward of the same.
InputCopies StageRun::copies_backward(std::int64_t block, std::int64_t blocks) const {
  if (!sends_inputs()) return {};
  const ActivationOffload& a = s_.shape.activations;
  const std::int64_t behind = blocks - 1 - block;
  return {.forgotten = behind >= a.kept && behind < a.found, .fetched = behind >= a.found};
}

void StageRun::bring_input(const InputCopies& inputs) {
  if (inputs.fetched) make(program_->boundary());
  if (inputs.fetched) simulator_.run(Script().fetch(program_->boundary()));
  if (inputs.forgotten) simulator_.run(Script().forget(program_->boundary()));
}

void StageRun::send_inputs(const InputCopies& inputs) {
  for (int i = 0; i < inputs.sent; ++i) simulator_.run(Script().send(program_->boundary()));
  for (int i = 0; i < inputs.dropped; ++i) drop(program_->boundary());
}

void StageRun::plan_forward(int chunk) {
  const auto [first, layers] = chunk_of(chunk);
  std::vector<Turn>& turns = forward_.emplace_back();
  for (const RecomputeSegment& segment : recompute_segments(s_.recompute, layers)) {
    for (std::int64_t l = segment.first; l < segment.first + segment.count; ++l) {
      turns.push_back(turn(
          segment.recomputed ? Turn::Kind::forward_dropped : Turn::Kind::forward_kept, first + l));
      turns.back().keeps_input = !segment.recomputed || l == segment.first;
      turns.back().inputs = copies_forward(l, layers);
    }
  }
  link(turns, begins(chunk) ? units_ahead(turns, 0) : 0);
  compare(turns);
}

void StageRun::plan_backward(int chunk) {
  const auto [first, layers] = chunk_of(chunk);
  std::vector<Turn>& turns = backward_.emplace_back();
  for (const BackwardVisit& visit : backward_visits(s_.recompute, layers)) {
    using Kind = BackwardVisit::Kind;
    turns.push_back(turn(visit.kind == Kind::rebuild    ? Turn::Kind::rebuild
                         : visit.kind == Kind::backward ? Turn::Kind::backward
                                                        : Turn::Kind::rebuild_and_backward,
                         first + visit.layer));
    turns.back().inputs = copies_backward(visit.layer, layers);
    // Its input; and the gradient of its output, which is that of the input of the one before it.
    if (s_.sharding.holds_inputs) turns.back().holds = turns.size() == 1 ? 1 : 2;
  }
  link(turns, 0);
  if (s_.sharding.queued_elements > 0) queue_buckets(chunk, turns);
  const bool gathers_embedding = s_.sharding.copies_out && begins(chunk) && !turns.empty();
  if (gathers_embedding) turns.back().next = &windows(s_.part.embedding_unit());
  compare(turns);
}

/// `opens`: the unit whose gradients it is the first to add to.
void StageRun::run_backward(const Effect& script, const UnitWindows* opens) {
  const bool after = tensors().makes_gradients();
  if (opens != nullptr && !after) open(*opens);
  simulator_.run(script);
  if (opens != nullptr && after) open(*opens);
}

void StageRun::take(const Turn& t) {
  const bool backward = t.is_backward();
  const bool forward = t.kind == Turn::Kind::forward_kept || t.kind == Turn::Kind::forward_dropped;
  const Pass pass = forward ? Pass::forward : Pass::backward;
  if (s_.sharding.ahead_elements > 0) {
    for (const UnitWindows* unit : t.ahead) gather(*unit, pass);
  } else {
    enter(*t.own, t.next, pass);
  }
  bring_input(t.inputs);
  KeptProgram& blocks = t.stays ? *staying_program_ : program();
  run_backward(blocks.block(t.kind, t.keeps_input, *t.block), backward ? t.own : nullptr);
  if (backward && inputs_linger()) make(program_->boundary());
  send_inputs(t.inputs);
  if (backward) begin_gradients();
  leave(*t.own);
  if (!backward) return;
  for (int i = 0; i < t.holds; ++i) make(program_->boundary());
  release(*t.own);
  complete(*t.own, t.freed);
}

/// Turns that look alike differ at most in the first: what it finds gathered or under way is what
/// the one before it left. From the second on they repeat.
void StageRun::take_all(const std::vector<Turn>& turns) {
  for (auto turn = turns.begin(); turn != turns.end(); turn += turn->alike) {
    take(*turn);
    simulator_.repeat(turn->alike - 1, [&] { take(*turn); });
  }
}

/// Of modules that are offloaded those of the block that the first backward begins with are not.
/// Source: NVIDIA/Megatron-LM megatron/core/pipeline_parallel/fine_grained_activation_offload.py,
/// PipelineOffloadManager.post_warmup_callback @ core_v0.16.0.
void StageRun::take_from(const std::vector<Turn>& turns, std::size_t last, int chunk, bool& done) {
  const bool offloads = s_.shape.activations.leaving == Leaving::modules && !turns.empty();
  const bool first = offloads && chunk == s_.chunks - 1 && !std::exchange(done, true);
  if (!first) return take_all(turns);
  std::vector<Turn> kept = turns;
  kept[last].stays = true;
  compare(kept);
  take_all(kept);
}

void StageRun::forward(int chunk) {
  const std::vector<Turn>& turns = forward_of(chunk);
  chunk_ = chunk;
  simulator_.enter(Phase::forward);
  if (begins(chunk)) make(tensors().ids());
  if (ends(chunk)) make(tensors().targets(s_.part));
  make(tensors().kept(s_.part));
  gathered_ahead_ = false;
  if (begins(chunk)) {
    const UnitWindows& unit = windows(s_.part.embedding_unit());
    enter(unit, next_of(turns), Pass::forward);
    const std::size_t ahead = units_ahead(turns, 0);
    for (std::size_t i = 0; i < ahead; ++i) gather(*turns[i].own, Pass::forward);
    simulator_.run(program_->embedding());
    leave(unit);
  }
  take_from(turns, turns.size() - 1, chunk, kept_forward_);
}

/// `opens`: the unit whose gradients the first one adds to.
void StageRun::head_chunk(const Head::Chunk& chunk, const UnitWindows* opens) {
  simulator_.enter(Phase::forward);
  simulator_.run(chunk.forward);
  simulator_.enter(Phase::loss);
  simulator_.run(chunk.loss);
  simulator_.enter(Phase::backward);
  simulator_.run(chunk.loss_backward);
  head_backward(chunk, opens);
}

void StageRun::head_backward(const Head::Chunk& chunk, const UnitWindows* opens) {
  simulator_.run(chunk.product_backward);
  if (!s_.model.lora.freezes()) begin_gradients();
  run_backward(chunk.backward, opens);
}

/// Forwards and at once backwards.
void StageRun::head_whole(const Head& head, const UnitWindows& unit) {
  const UnitWindows* next = next_of(backward_.back());
  if (s_.sharding.copies_out) {
    enter(unit, nullptr, Pass::forward);
  } else {
    enter(unit, next, Pass::backward);
  }
  simulator_.run(head.before);
  const UnitWindows* opens = &unit;
  for (const Head::Chunk& chunk : head.chunks) {
    head_chunk(chunk, std::exchange(opens, nullptr));
    simulator_.repeat(chunk.count - 1, [&] { head_chunk(chunk, nullptr); });
  }
  simulator_.run(head.after);
  leave(unit);
  release(unit);
  drop_buffer();
}

/// Out of its unit to the loss and back, and then into it again.
void StageRun::head_twice(const Head& head, const UnitWindows& unit) {
  const Head::Chunk& chunk = head.chunks.front();
  enter(unit, nullptr, Pass::forward);
  simulator_.run(head.before);
  simulator_.run(chunk.forward);
  leave(unit);
  simulator_.enter(Phase::loss);
  simulator_.run(chunk.loss);
  drop_buffer();
  simulator_.enter(Phase::backward);
  simulator_.run(chunk.loss_backward);
  enter(unit, next_of(backward_.back()), Pass::backward);
  head_backward(chunk, &unit);
  simulator_.run(head.after);
  leave(unit);
  release(unit);
}

void StageRun::head() {
  const UnitWindows& unit = windows(s_.part.head_unit());
  const Head& head = program().head(s_.model.runs.back().block);
  simulator_.enter(Phase::forward);
  const bool at_once = head.chunks.size() > 1 || head.chunks.front().count > 1;
  if (s_.sharding.copies_out && !at_once) {
    head_twice(head, unit);
  } else {
    head_whole(head, unit);
  }
  complete(unit);
}

void StageRun::backward(int chunk) {
  chunk_ = chunk;
  gathered_ahead_ = false;
  if (ends(chunk) && s_.shape.torch_stages) head_back();
  if (ends(chunk) && !s_.shape.torch_stages) head();
  simulator_.enter(Phase::backward);
  // Before the last block's input the final norm's comes back, and stays as long.
  if (inputs_linger()) make(program_->boundary());
  take_from(backward_of(chunk), 0, chunk, kept_backward_);
  if (inputs_linger()) drop(program_->boundary());
  if (begins(chunk)) {
    const UnitWindows& unit = windows(s_.part.embedding_unit());
    if (s_.sharding.copies_out) enter(unit, nullptr, Pass::backward);
    run_backward(program_->embedding_backward(), &unit);
    if (s_.sharding.copies_out) leave(unit);
    release(unit);
    complete(unit, queue_end().freed);
    drop(tensors().ids());
  }
  drop(gradients(queue_end().left));
  for (const Turn& turn : backward_of(chunk)) {
    for (int i = 0; i < turn.holds; ++i) drop(program_->boundary());
  }
  drop(tensors().kept(s_.part));
  drop(gradients(summing_));
  summing_ = 0;
  for (const UnitWindows& unit : windows_) {
    if (s_.regrows) drop(gradients(unit.growing));
  }
  grown_[static_cast<std::size_t>(chunk_)] = !s_.regrows;
  if (std::exchange(has_gradients_, false)) simulator_.run(with_gradients(&Script::drop));
  if (ends(chunk)) drop(tensors().targets(s_.part));
}

void StageRun::hand_over(const Handover& h) {
  simulator_.enter(h.receive_forward ? Phase::forward : Phase::backward);
  if (h.receive_forward) make(program_->boundary());
  if (h.receive_backward) make(program_->boundary());
  if (h.send_forward) drop(program_->boundary());
  if (!h.send_backward) return;
  if (tensors().keeps_sent_gradient() && !std::exchange(sent_, true)) return;
  drop(program_->boundary());
}

/// All forwards are alike, and so are all backwards after the first.
void StageRun::run_gpipe() {
  const bool first = s_.part.first, last = s_.part.last;
  simulator_.repeat(s_.micro_batches, [&] {
    if (!first) hand_over({.receive_forward = true});
    forward(0);
    if (!last) hand_over({.send_forward = true});
  });
  const auto back = [&] {
    if (!last) hand_over({.receive_backward = true});
    backward(0);
    if (!first) hand_over({.send_backward = true});
  };
  back();
  simulator_.repeat(s_.micro_batches - 1, back);
}

namespace {

/// Micro-batches come in rounds of as many as there are stages. With two the pipeline is full.
constexpr int kRoundsShown = 3;

/// Once the pipeline is full, every forward and backward in turn is like the one before: two of
/// them show what all do. Of several chunks, a whole round is like the one before.
std::vector<PipelineStep> shown_steps(const StageStep& s) {
  if (s.chunks > 1) {
    const std::int64_t shown = std::min(s.micro_batches, std::int64_t{kRoundsShown} * s.stages);
    return interleaved_steps(s.stage, s.stages, s.chunks, shown);
  }
  const std::int64_t full = in_flight(s.schedule, s.stage, s.stages, s.micro_batches);
  return pipeline_steps(s.schedule, s.stage, s.stages, std::min(s.micro_batches, full + 2));
}

}  // namespace

void StageRun::run_in_turn() {
  for (const PipelineStep& step : shown_steps(s_)) {
    switch (step.kind) {
      case PipelineStep::Kind::forward:
        forward(step.chunk);
        break;
      case PipelineStep::Kind::backward:
        backward(step.chunk);
        break;
      case PipelineStep::Kind::handover:
        hand_over(step.handover);
        break;
    }
  }
}

void StageRun::run() {
  simulator_.enter(Phase::forward);
  simulator_.run(tensors().resident(s_.part));
  take_streams();
  if (s_.shape.torch_stages) {
    run_torch_stages();
  } else if (s_.schedule == Schedule::gpipe) {
    run_gpipe();
  } else {
    run_in_turn();
  }
}

std::vector<Instant> StageRun::timeline() {
  std::vector<Instant> instants;
  simulator_.keep_timeline(&instants);
  run();
  return instants;
}

HostCopies StageRun::copies() {
  run();
  return simulator_.copies();
}

HostCopies StageRun::copies_of_one() {
  kept_forward_ = kept_backward_ = true;
  for (int chunk = 0; chunk < s_.chunks; ++chunk) forward(chunk);
  for (int chunk = s_.chunks - 1; chunk >= 0; --chunk) backward(chunk);
  return simulator_.copies();
}

std::array<Peaks, kWordCount<Phase>> StageRun::peaks() {
  run();
  std::array<Peaks, kWordCount<Phase>> peaks{};
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    peaks[i] = simulator_.peaks(static_cast<Phase>(i));
  }
  return peaks;
}

StepFacts::StepFacts(const Problem& of_problem, const TargetTraits& of_traits,
                     const Candidate& of_candidate)
    : problem(of_problem),
      traits(of_traits),
      candidate(of_candidate),
      shape(step_shape(problem, traits, candidate)),
      sharding(traits.sharding(problem, candidate)),
      holdings(problem, traits, candidate),
      regrows(holdings.regrows()),
      overlap(traits.overlaps(candidate)),
      micro_batches(accumulation(problem, candidate)) {}

StageStep stage_step(const StepFacts& facts, int number, const ModelPart& part,
                     const FlatLayout& layout, const FlatLayout& frozen) {
  static const FlatLayout kNone;
  const Candidate& c = facts.candidate;
  StepShape shape = facts.shape;
  if (shape.kernels == KernelSet::transformers) {
    shape.dropped_blocks = recomputed_layers(c.recompute, part.layers, c.vpp);
  }
  return {.model = facts.problem.model,
          .part = part,
          .shape = shape,
          .layout = layout,
          .frozen = frozen,
          .recompute = c.recompute,
          .sharding = facts.sharding,
          .overlap = facts.overlap,
          .growing = facts.holdings.growing_bytes(layout),
          .regrows = facts.regrows,
          .with_gradients = facts.holdings.bytes_with_gradients({layout, frozen, kNone}),
          .quantised = facts.problem.workload.serving.weights,
          .schedule = c.schedule,
          .stage = number,
          .stages = c.pp,
          .chunks = c.vpp,
          .micro_batches = facts.micro_batches};
}

std::array<Peaks, kWordCount<Phase>> stage_peaks(const StageStep& step, KeptPrograms& programs) {
  return StageRun(step, programs).peaks();
}

HostCopies stage_copies(const StageStep& step, KeptPrograms& programs) {
  if (step.shape.activations.leaving == Leaving::nothing) return {};
  HostCopies copies = StageRun(step, programs).copies_of_one();
  copies.most = StageRun(step, programs).copies().most;
  return copies;
}

std::vector<Instant> stage_timeline(const StageStep& step) {
  KeptPrograms programs(true);
  return StageRun(step, programs).timeline();
}

}  // namespace planwright::estimator
