#include "estimator/stage_script.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "estimator/holdings.h"
#include "estimator/spec/pipeline.h"
#include "estimator/spec/recompute_plan.h"
#include "estimator/step_program.h"
#include "estimator/unit_windows.h"

namespace planwright::estimator {
namespace {

/// Micro-batches come in rounds of as many as there are stages. With two the pipeline is full.
constexpr int kRoundsShown = 3;

/// A block's turn, forwards or backwards, as far as its bytes depend on it.
struct Turn {
  using Kind = StepProgram::Turn;
  Kind kind;
  bool keeps_input;  ///< of a forward
  const BlockSpec* block;
  const UnitWindows* own;
  const UnitWindows* next;  ///< whose parameters are gathered meanwhile; null: nobody's
  int holds = 0;  ///< tensors like its input that are there from its backward to the last one

  bool looks_like(const Turn& other) const {
    const auto same = [](const UnitWindows* a, const UnitWindows* b) {
      return a == b || (a != nullptr && b != nullptr && *a == *b);
    };
    return kind == other.kind && keeps_input == other.keeps_input && block == other.block &&
           same(own, other.own) && same(next, other.next) && holds == other.holds;
  }
};

class StageRun {
 public:
  explicit StageRun(const StageStep& step)
      : s_(step),
        program_(step_program(step.shape)),
        later_program_(step_program(summing(step.shape))),
        windows_(windows_of(step)) {
    for (int chunk = 0; chunk < step.chunks; ++chunk) {
      plan_forward(chunk);
      plan_backward(chunk);
    }
  }

  std::array<Peaks, kWordCount<Phase>> peaks();
  std::vector<Instant> timeline();

 private:
  static StepShape summing(StepShape shape) {
    shape.sums_gradients = true;
    return shape;
  }
  /// Gradients that are not handed over to others are added to those of the first backward.
  const StepProgram& program() const {
    return grown_ && !s_.sharding.buckets ? *later_program_ : *program_;
  }
  void run();
  const UnitWindows& windows(std::int64_t unit) const {
    return windows_[static_cast<std::size_t>(unit)];
  }
  const UnitWindows& windows_of_layer(std::int64_t layer) const {
    return windows(s_.part.block_unit(s_.part.first_layer + layer));
  }
  /// Blocks of a chunk; a stage that has several has as many of each.
  std::int64_t chunk_layers() const { return s_.part.layers / s_.chunks; }
  bool begins(int chunk) const { return s_.part.first && chunk == 0; }
  bool ends(int chunk) const { return s_.part.last && chunk == s_.chunks - 1; }
  std::vector<Turn>& forward_of(int chunk) { return forward_[static_cast<std::size_t>(chunk)]; }
  std::vector<Turn>& backward_of(int chunk) { return backward_[static_cast<std::size_t>(chunk)]; }
  Turn turn(Turn::Kind kind, std::int64_t layer) const {
    return {kind,    true, &s_.model.block(s_.part.first_layer + layer), &windows_of_layer(layer),
            nullptr, 0};
  }
  void plan_forward(int chunk);
  void plan_backward(int chunk);
  static void link(std::vector<Turn>& turns);

  enum class Pass { forward, backward };
  void enter(const UnitWindows& own, const UnitWindows* next, Pass pass);
  std::int64_t buffer_bytes(const UnitWindows& unit, Pass pass) const;
  void copy_out(const UnitWindows& own, const UnitWindows* next, Pass pass);
  void drop_buffer() { drop(buffer(std::exchange(buffered_, 0))); }
  void gather(const UnitWindows& unit, Pass pass);
  void leave(const UnitWindows& own);
  void release(const UnitWindows& own);
  void open(const UnitWindows& own);
  void grow(const UnitWindows& own);
  Script with_gradients(Script& (Script::*event)(const Tensor&)) const;
  void begin_gradients() {
    if (!std::exchange(has_gradients_, true)) simulator_.run(with_gradients(&Script::make));
  }
  void head_backward(const StepProgram::Chunk& chunk, const UnitWindows* opens);
  /// What is reduced is a tensor of its own, whose size is the rank's part.
  bool grows_apart() const { return s_.sharding.reduced_apart && s_.sharding.each_micro_batch; }
  void run_backward(const Script& script, const UnitWindows* opens);
  void complete(const UnitWindows& own);
  void complete_flat(const UnitWindows& own);

  void take(const Turn& turn);
  void take_all(const std::vector<Turn>& turns);
  void head_chunk(const StepProgram::Chunk& chunk, const UnitWindows* opens);
  void head_whole(const StepProgram::Head& head, const UnitWindows& unit);
  void head_twice(const StepProgram::Head& head, const UnitWindows& unit);
  void head();
  void forward(int chunk);
  void backward(int chunk);
  void hand_over(const Handover& handover);
  void run_gpipe();
  void run_in_turn();

  static Tensor parameters(std::int64_t bytes) { return {"gathered", bytes, Account::parameters}; }
  static Tensor buffer(std::int64_t bytes) { return {"buffer", bytes, Account::communication}; }
  static Tensor gradients(std::int64_t bytes) { return {"bucket", bytes, Account::gradients}; }
  void make(const Tensor& tensor) { simulator_.run(Script().make(tensor)); }
  void drop(const Tensor& tensor) { simulator_.run(Script().drop(tensor)); }

  const StageStep& s_;
  std::unique_ptr<const StepProgram> program_, later_program_;
  std::vector<UnitWindows> windows_;
  std::vector<std::vector<Turn>> forward_, backward_;  ///< of each chunk
  Simulator simulator_;
  bool gathered_ahead_ = false;  ///< the coming unit's parameters are there
  std::int64_t buffered_ = 0;    ///< bytes of the buffer that a unit was gathered into
  std::int64_t summing_ = 0;     ///< bytes of the bucket whose sum is under way
  bool has_gradients_ = false;   ///< of the backward that runs there are some
  bool grown_ = false;           ///< gradients of an earlier backward are there
  bool sent_ = false;            ///< the gradient that was sent last is still there
};

/// Each turn gathers ahead for the one after it.
void StageRun::link(std::vector<Turn>& turns) {
  for (std::size_t i = 0; i + 1 < turns.size(); ++i) turns[i].next = turns[i + 1].own;
}

void StageRun::plan_forward(int chunk) {
  const std::int64_t first = chunk * chunk_layers();
  std::vector<Turn>& turns = forward_.emplace_back();
  for (const RecomputeSegment& segment : recompute_segments(s_.recompute, chunk_layers())) {
    for (std::int64_t l = segment.first; l < segment.first + segment.count; ++l) {
      turns.push_back(turn(
          segment.recomputed ? Turn::Kind::forward_dropped : Turn::Kind::forward_kept, first + l));
      turns.back().keeps_input = !segment.recomputed || l == segment.first;
    }
  }
  link(turns);
}

void StageRun::plan_backward(int chunk) {
  const std::int64_t first = chunk * chunk_layers();
  std::vector<Turn>& turns = backward_.emplace_back();
  for (const BackwardVisit& visit : backward_visits(s_.recompute, chunk_layers())) {
    using Kind = BackwardVisit::Kind;
    turns.push_back(turn(visit.kind == Kind::rebuild    ? Turn::Kind::rebuild
                         : visit.kind == Kind::backward ? Turn::Kind::backward
                                                        : Turn::Kind::rebuild_and_backward,
                         first + visit.layer));
    // Its input; and the gradient of its output, which is that of the input of the one before it.
    if (s_.sharding.holds_inputs) turns.back().holds = turns.size() == 1 ? 1 : 2;
  }
  link(turns);
  const bool gathers_embedding = s_.sharding.copies_out && begins(chunk) && !turns.empty();
  if (gathers_embedding) turns.back().next = &windows(s_.part.embedding_unit());
}

void StageRun::enter(const UnitWindows& own, const UnitWindows* next, Pass pass) {
  if (s_.sharding.copies_out) return copy_out(own, next, pass);
  if (!gathered_ahead_) gather(own, pass);
  gathered_ahead_ = s_.overlap && next != nullptr;
  if (gathered_ahead_) gather(*next, pass);
}

/// A rank that is alone copies its weights without one.
std::int64_t StageRun::buffer_bytes(const UnitWindows& unit, Pass pass) const {
  if (s_.layout.ranks == 1) return 0;
  std::int64_t bytes = std::accumulate(unit.gathered.begin(), unit.gathered.end(), std::int64_t{0});
  if (pass == Pass::backward) return bytes;
  return std::accumulate(unit.kept.begin(), unit.kept.end(), bytes);
}

/// Source: pytorch torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, wait_for_unshard and
/// _backward_prefetch @ v2.11.0.
void StageRun::copy_out(const UnitWindows& own, const UnitWindows* next, Pass pass) {
  const std::int64_t bytes = buffer_bytes(own, pass);
  if (!gathered_ahead_) {
    make(buffer(bytes));
    drop_buffer();
    buffered_ = bytes;
  }
  gather(own, pass);
  gathered_ahead_ = false;
  if (pass == Pass::forward) return;
  drop_buffer();
  gathered_ahead_ = s_.overlap && next != nullptr;
  if (!gathered_ahead_) return;
  buffered_ = buffer_bytes(*next, pass);
  make(buffer(buffered_));
}

void StageRun::gather(const UnitWindows& unit, Pass pass) {
  for (const std::int64_t bytes : unit.gathered) make(parameters(bytes));
  if (pass == Pass::backward) return;
  for (const std::int64_t bytes : unit.kept) make(parameters(bytes));
}

void StageRun::leave(const UnitWindows& own) {
  for (const std::int64_t bytes : own.gathered) drop(parameters(bytes));
}

void StageRun::release(const UnitWindows& own) {
  for (const std::int64_t bytes : own.kept) drop(parameters(bytes));
}

void StageRun::open(const UnitWindows& own) {
  if (!grows_apart()) grow(own);
  for (const std::int64_t bytes : own.opened) make(gradients(bytes));
}

Script StageRun::with_gradients(Script& (Script::*event)(const Tensor&)) const {
  Script script;
  for (std::size_t i = 0; i < kWordCount<Account>; ++i) {
    const auto account = static_cast<Account>(i);
    const Bytes bytes = s_.with_gradients[account];
    if (bytes.value > 0) (script.*event)({"with gradients", bytes.value, account});
  }
  return script;
}

/// Later backwards add to what the first one makes, and what is reduced apart goes then.
void StageRun::grow(const UnitWindows& own) {
  if (grown_ && !grows_apart()) return;
  make(gradients(own.growing));
  if (grown_) drop(gradients(own.growing));
}

/// `opens`: the unit whose gradients it is the first to add to.
void StageRun::run_backward(const Script& script, const UnitWindows* opens) {
  const bool after = program().makes_gradients();
  if (opens != nullptr && !after) open(*opens);
  simulator_.run(script);
  if (opens != nullptr && after) open(*opens);
}

/// The parts of a flat parameter's gradient are put together first, which they and it are there
/// for; it is itself reduced, or a copy of another type is. Sources: pytorch
/// torch/distributed/fsdp/_flat_param.py, _use_unsharded_views, and _runtime_utils.py,
/// _post_backward_hook @ v2.11.0.
void StageRun::complete_flat(const UnitWindows& own) {
  for (const auto& [made, reduced] : own.completed) {
    make(gradients(made));
    drop(gradients(made));
    const std::int64_t copy = s_.sharding.made == s_.sharding.reduced ? 0 : reduced;
    make(gradients(copy));
    if (grows_apart()) grow(own);
    drop(gradients(copy));
    drop(gradients(made));
  }
}

void StageRun::complete(const UnitWindows& own) {
  if (s_.sharding.one_outer_unit) return complete_flat(own);
  for (const auto& [made, reduced] : own.completed) {
    drop(gradients(summing_));
    summing_ = made;
    if (s_.sharding.reduced_apart) {
      make(gradients(reduced));
      drop(gradients(made));
      summing_ = reduced;
    }
    if (s_.overlap) continue;
    drop(gradients(summing_));
    summing_ = 0;
  }
  if (grows_apart()) grow(own);
}

void StageRun::take(const Turn& t) {
  const bool backward =
      t.kind == Turn::Kind::rebuild_and_backward || t.kind == Turn::Kind::backward;
  const bool forward = t.kind == Turn::Kind::forward_kept || t.kind == Turn::Kind::forward_dropped;
  enter(*t.own, t.next, forward ? Pass::forward : Pass::backward);
  const Script script = program().block(t.kind, t.keeps_input, *t.block);
  run_backward(script, backward ? t.own : nullptr);
  if (backward) begin_gradients();
  leave(*t.own);
  if (!backward) return;
  for (int i = 0; i < t.holds; ++i) make(program_->boundary());
  release(*t.own);
  complete(*t.own);
}

/// Turns that look alike differ at most in the first: what it finds gathered or under way is what
/// the one before it left. From the second on they repeat.
void StageRun::take_all(const std::vector<Turn>& turns) {
  for (std::size_t i = 0; i < turns.size();) {
    std::size_t end = i + 1;
    while (end < turns.size() && turns[end].looks_like(turns[i])) ++end;
    take(turns[i]);
    simulator_.repeat(static_cast<std::int64_t>(end - i) - 1, [&] { take(turns[i]); });
    i = end;
  }
}

void StageRun::forward(int chunk) {
  const std::vector<Turn>& turns = forward_of(chunk);
  simulator_.enter(Phase::forward);
  if (begins(chunk)) make(program_->ids());
  if (ends(chunk)) make(program_->targets(s_.part));
  make(program_->kept(s_.part));
  gathered_ahead_ = false;
  if (begins(chunk)) {
    const UnitWindows& unit = windows(s_.part.embedding_unit());
    enter(unit, turns.empty() ? nullptr : turns.front().own, Pass::forward);
    simulator_.run(program_->embedding());
    leave(unit);
  }
  take_all(turns);
}

/// `opens`: the unit whose gradients the first one adds to.
void StageRun::head_chunk(const StepProgram::Chunk& chunk, const UnitWindows* opens) {
  simulator_.enter(Phase::forward);
  simulator_.run(chunk.forward);
  simulator_.enter(Phase::loss);
  simulator_.run(chunk.loss);
  simulator_.enter(Phase::backward);
  simulator_.run(chunk.loss_backward);
  head_backward(chunk, opens);
}

void StageRun::head_backward(const StepProgram::Chunk& chunk, const UnitWindows* opens) {
  simulator_.run(chunk.product_backward);
  if (!s_.model.lora.freezes()) begin_gradients();
  run_backward(chunk.backward, opens);
}

/// Forwards and at once backwards.
void StageRun::head_whole(const StepProgram::Head& head, const UnitWindows& unit) {
  const std::vector<Turn>& turns = backward_.back();
  const UnitWindows* next = turns.empty() ? nullptr : turns.front().own;
  if (s_.sharding.copies_out) {
    enter(unit, nullptr, Pass::forward);
  } else {
    enter(unit, next, Pass::backward);
  }
  simulator_.run(head.before);
  const UnitWindows* opens = &unit;
  for (const StepProgram::Chunk& chunk : head.chunks) {
    head_chunk(chunk, std::exchange(opens, nullptr));
    simulator_.repeat(chunk.count - 1, [&] { head_chunk(chunk, nullptr); });
  }
  simulator_.run(head.after);
  leave(unit);
  release(unit);
  drop_buffer();
}

/// Out of its unit to the loss and back, and then into it again.
void StageRun::head_twice(const StepProgram::Head& head, const UnitWindows& unit) {
  const StepProgram::Chunk& chunk = head.chunks.front();
  enter(unit, nullptr, Pass::forward);
  simulator_.run(head.before);
  simulator_.run(chunk.forward);
  leave(unit);
  simulator_.enter(Phase::loss);
  simulator_.run(chunk.loss);
  drop_buffer();
  simulator_.enter(Phase::backward);
  simulator_.run(chunk.loss_backward);
  const std::vector<Turn>& turns = backward_.back();
  enter(unit, turns.empty() ? nullptr : turns.front().own, Pass::backward);
  head_backward(chunk, &unit);
  simulator_.run(head.after);
  leave(unit);
  release(unit);
}

void StageRun::head() {
  const UnitWindows& unit = windows(s_.part.head_unit());
  const StepProgram::Head head = program().head(s_.model.runs.back().block);
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
  gathered_ahead_ = false;
  if (ends(chunk)) head();
  simulator_.enter(Phase::backward);
  take_all(backward_of(chunk));
  if (begins(chunk)) {
    const UnitWindows& unit = windows(s_.part.embedding_unit());
    if (s_.sharding.copies_out) enter(unit, nullptr, Pass::backward);
    run_backward(program_->embedding_backward(), &unit);
    if (s_.sharding.copies_out) leave(unit);
    release(unit);
    complete(unit);
    drop(program_->ids());
  }
  for (const Turn& turn : backward_of(chunk)) {
    for (int i = 0; i < turn.holds; ++i) drop(program_->boundary());
  }
  drop(program_->kept(s_.part));
  drop(gradients(summing_));
  summing_ = 0;
  for (const UnitWindows& unit : windows_) {
    if (s_.regrows) drop(gradients(unit.growing));
  }
  grown_ = !s_.regrows;
  if (std::exchange(has_gradients_, false)) simulator_.run(with_gradients(&Script::drop));
  if (ends(chunk)) drop(program_->targets(s_.part));
}

void StageRun::hand_over(const Handover& h) {
  simulator_.enter(h.receive_forward ? Phase::forward : Phase::backward);
  if (h.receive_forward) make(program_->boundary());
  if (h.receive_backward) make(program_->boundary());
  if (h.send_forward) drop(program_->boundary());
  if (!h.send_backward) return;
  if (program_->keeps_sent_gradient() && !std::exchange(sent_, true)) return;
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
  simulator_.run(program_->resident(s_.part));
  if (s_.schedule == Schedule::gpipe) {
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

std::array<Peaks, kWordCount<Phase>> StageRun::peaks() {
  run();
  std::array<Peaks, kWordCount<Phase>> peaks{};
  for (std::size_t i = 0; i < peaks.size(); ++i) {
    peaks[i] = simulator_.peaks(static_cast<Phase>(i));
  }
  return peaks;
}

}  // namespace

StageStep stage_step(const Problem& problem, const TargetTraits& traits, const Candidate& c,
                     int number, const ModelPart& part, const FlatLayout& layout,
                     const FlatLayout& frozen) {
  static const FlatLayout kNone;
  StepShape shape = step_shape(problem, traits, c);
  shape.dropped_blocks = recomputed_layers(c.recompute, part.layers);
  return {.model = problem.model,
          .part = part,
          .shape = shape,
          .layout = layout,
          .frozen = frozen,
          .recompute = c.recompute,
          .sharding = traits.sharding(problem, c),
          .overlap = traits.overlaps(c),
          .growing = growing_bytes(problem, traits, c, layout),
          .regrows = regrows(problem, traits, c),
          .with_gradients = bytes_with_gradients(problem, traits, c, {layout, frozen, kNone}),
          .quantised = problem.workload.serving.weights,
          .schedule = c.schedule,
          .stage = number,
          .stages = c.pp,
          .chunks = c.vpp,
          .micro_batches = accumulation(problem, c)};
}

std::array<Peaks, kWordCount<Phase>> stage_peaks(const StageStep& step) {
  return StageRun(step).peaks();
}

std::vector<Instant> stage_timeline(const StageStep& step) { return StageRun(step).timeline(); }

}  // namespace planwright::estimator
