#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "estimator/kept_program.h"
#include "estimator/spec/pipeline.h"
#include "estimator/spec/recompute_plan.h"
#include "estimator/stage_script.h"
#include "estimator/unit_windows.h"

/// How a stage's step runs: estimator/stage_script in the order of the built-in runtime and of
/// Megatron, estimator/torch_stage_run in that of torch's stages; what data parallelism does around
/// units meanwhile: estimator/stage_units.
namespace planwright::estimator {

/// What becomes of inputs of blocks that are run again, around a turn.
struct InputCopies {
  int sent = 0, dropped = 0;                ///< behind it
  bool forgotten = false, fetched = false;  ///< before it
  bool operator==(const InputCopies&) const = default;
};

/// A block's turn, forwards or backwards, as far as its bytes depend on it.
struct Turn {
  using Kind = StepProgram::Turn;
  Kind kind;
  bool keeps_input;  ///< of a forward
  const BlockSpec* block;
  const UnitWindows* own;
  const UnitWindows* next;  ///< whose parameters are gathered meanwhile; null: nobody's
  int holds = 0;  ///< tensors like its input that are there from its backward to the last one
  InputCopies inputs{};
  bool stays = false;  ///< nothing of it is offloaded
  /// With Sharding::ahead_elements: whose parameters are gathered at its beginning.
  std::vector<const UnitWindows*> ahead{};
  std::int64_t freed = 0;  ///< bytes of queued buckets that go when its own are complete
  std::int64_t alike = 1;  ///< turns from this one on that look like it

  bool is_backward() const { return kind == Kind::backward || kind == Kind::rebuild_and_backward; }
  bool looks_like(const Turn& other) const {
    const auto same = [](const UnitWindows* a, const UnitWindows* b) {
      return a == b || (a != nullptr && b != nullptr && *a == *b);
    };
    return kind == other.kind && keeps_input == other.keeps_input && block == other.block &&
           same(own, other.own) && same(next, other.next) && holds == other.holds &&
           inputs == other.inputs && stays == other.stays && freed == other.freed &&
           std::equal(ahead.begin(), ahead.end(), other.ahead.begin(), other.ahead.end(), same);
  }
};

class StageRun {
 public:
  StageRun(const StageStep& step, KeptPrograms& programs)
      : s_(step),
        program_(&programs.of(step.shape)),
        later_program_(&programs.of(summing(step.shape))),
        staying_program_(&programs.of(without_offload(step.shape))),
        windows_(windows_of(step)),
        simulator_(step.shape.activations.pinned),
        grown_(static_cast<std::size_t>(step.chunks)) {
    for (int chunk = 0; chunk < step.chunks; ++chunk) {
      plan_forward(chunk);
      plan_backward(chunk);
    }
  }

  std::array<Peaks, kWordCount<Phase>> peaks();
  std::vector<Instant> timeline();
  HostCopies copies();  ///< of a step; the next: of one micro-batch
  HostCopies copies_of_one();

 private:
  static StepShape summing(StepShape shape) {
    shape.sums_gradients = true;
    return shape;
  }
  static StepShape without_offload(StepShape shape) {
    shape.activations = {};
    return shape;
  }
  /// Gradients that are not handed over to others are added to those of the first backward.
  KeptProgram& program() const {
    return grown() && !s_.sharding.buckets ? *later_program_ : *program_;
  }
  const StepProgram& tensors() const { return program_->program(); }
  void run();
  const UnitWindows& windows(std::int64_t unit) const {
    return windows_[static_cast<std::size_t>(unit)];
  }
  const UnitWindows& windows_of_layer(std::int64_t layer) const {
    return windows(s_.part.block_unit(s_.part.first_layer + layer));
  }
  StageChunk chunk_of(int number) const { return stage_chunk(s_.part.layers, s_.chunks, number); }
  bool grown() const { return grown_[static_cast<std::size_t>(chunk_)]; }
  bool begins(int chunk) const { return s_.part.first && chunk == 0; }
  bool ends(int chunk) const { return s_.part.last && chunk == s_.chunks - 1; }
  std::vector<Turn>& forward_of(int chunk) { return forward_[static_cast<std::size_t>(chunk)]; }
  std::vector<Turn>& backward_of(int chunk) { return backward_[static_cast<std::size_t>(chunk)]; }
  Turn turn(Turn::Kind kind, std::int64_t layer) const {
    return {
        kind, true, &s_.model.block(s_.part.first_layer + layer), &windows_of_layer(layer), nullptr,
        0,    {}};
  }
  bool sends_inputs() const { return s_.shape.activations.leaving == Leaving::inputs; }
  bool inputs_linger() const {
    return sends_inputs() && s_.shape.activations.staying == Staying::to_next_rebuild;
  }
  InputCopies copies_forward(std::int64_t block, std::int64_t blocks) const;
  InputCopies copies_backward(std::int64_t block, std::int64_t blocks) const;
  void bring_input(const InputCopies& inputs);
  void send_inputs(const InputCopies& inputs);
  void plan_forward(int chunk);
  void plan_backward(int chunk);
  void link(std::vector<Turn>& turns, std::size_t gathered) const;
  void look_ahead(std::vector<Turn>& turns, std::size_t gathered) const;
  std::size_t units_ahead(const std::vector<Turn>& turns, std::size_t from) const;
  void queue_buckets(int chunk, std::vector<Turn>& turns);
  /// Bytes of queued buckets that go when the embedding's are complete, and that are left then.
  struct QueueEnd {
    std::int64_t freed = 0, left = 0;
  };
  QueueEnd queue_end() const {
    return queue_ends_.empty() ? QueueEnd{} : queue_ends_[static_cast<std::size_t>(chunk_)];
  }
  static void compare(std::vector<Turn>& turns);

  /// Whose parameters are gathered while the unit before these turns is at work.
  const UnitWindows* next_of(const std::vector<Turn>& turns) const {
    return turns.empty() || s_.sharding.ahead_elements > 0 ? nullptr : turns.front().own;
  }
  enum class Pass { forward, backward };
  void enter(const UnitWindows& own, const UnitWindows* next, Pass pass);
  std::int64_t buffer_bytes(const UnitWindows& unit, Pass pass) const;
  void copy_out(const UnitWindows& own, const UnitWindows* next, Pass pass);
  void drop_buffer() { drop_apart(buffer(std::exchange(buffered_, 0))); }
  void take_streams();
  void make_apart(const Tensor& tensor);
  void drop_apart(const Tensor& tensor);
  void gather(const UnitWindows& unit, Pass pass);
  void leave(const UnitWindows& own);
  void release(const UnitWindows& own);
  void open(const UnitWindows& own);
  void grow(const UnitWindows& own);
  Script with_gradients(Script& (Script::*event)(const Tensor&)) const;
  void begin_gradients() {
    if (!std::exchange(has_gradients_, true)) simulator_.run(with_gradients(&Script::make));
  }
  using Head = KeptProgram::Head;
  void head_backward(const Head::Chunk& chunk, const UnitWindows* opens);
  /// What is reduced is a tensor of its own, whose size is the rank's part.
  bool grows_apart() const { return s_.sharding.reduced_apart && s_.sharding.each_micro_batch; }
  void run_backward(const Effect& script, const UnitWindows* opens);
  /// `freed`: see Turn.
  void complete(const UnitWindows& own, std::int64_t freed = 0);
  void complete_flat(const UnitWindows& own);
  void complete_queued(const UnitWindows& own, std::int64_t freed);

  void take(const Turn& turn);
  void take_all(const std::vector<Turn>& turns);
  void take_from(const std::vector<Turn>& turns, std::size_t last, int chunk, bool& done);
  void head_chunk(const Head::Chunk& chunk, const UnitWindows* opens);
  void head_whole(const Head& head, const UnitWindows& unit);
  void head_twice(const Head& head, const UnitWindows& unit);
  void head();
  void forward(int chunk);
  void backward(int chunk);
  void hand_over(const Handover& handover);
  void run_gpipe();
  void run_in_turn();

  Tensor buffer_of_stages(std::int64_t count) const;
  void take_received();
  void head_ahead();
  void head_back();
  void input_backward(int chunk);
  void weight_backward(int chunk);
  void forward_in_stages(int chunk);
  void backward_in_stages(int chunk);
  void end_in_stages(int chunk);
  void end_step_of_stages();
  void run_torch_stages();

  static Tensor parameters(std::int64_t bytes) { return {"gathered", bytes, Account::parameters}; }
  static Tensor buffer(std::int64_t bytes) { return {"buffer", bytes, Account::communication}; }
  static Tensor idle(std::int64_t bytes) { return {"idle", bytes, Account::fragmentation}; }
  static Tensor gradients(std::int64_t bytes) { return {"bucket", bytes, Account::gradients}; }
  void make(const Tensor& tensor) { simulator_.make(tensor); }
  void drop(const Tensor& tensor) { simulator_.drop(tensor); }

  const StageStep& s_;
  KeptProgram *program_, *later_program_, *staying_program_;
  std::vector<UnitWindows> windows_;
  std::vector<std::vector<Turn>> forward_, backward_;  ///< of each chunk
  std::vector<QueueEnd> queue_ends_;  ///< of each chunk's backward; empty: nothing queues
  Simulator simulator_;
  bool gathered_ahead_ = false;  ///< the coming unit's parameters are there
  std::int64_t buffered_ = 0;    ///< bytes of the buffer that a unit was gathered into
  std::int64_t summing_ = 0;     ///< bytes of the bucket whose sum is under way
  bool has_gradients_ = false;   ///< of the backward that runs there are some
  std::vector<bool> grown_;      ///< by chunk: gradients of an earlier backward are there
  int chunk_ = 0;                ///< whose turn it is
  bool sent_ = false;            ///< the gradient that was sent last is still there
  bool kept_forward_ = false, kept_backward_ = false;  ///< a last block that was not offloaded
};

}  // namespace planwright::estimator
