#include <algorithm>
#include <cstddef>
#include <deque>
#include <numeric>

#include "estimator/stage_run.h"

namespace planwright::estimator {
namespace {

std::int64_t bytes_gathered(const UnitWindows& unit) {
  return std::accumulate(unit.gathered.begin(), unit.gathered.end(), std::int64_t{0});
}

}  // namespace

/// Each turn gathers ahead for the one after it, or for more of them, the first `gathered` of which
/// are there.
void StageRun::link(std::vector<Turn>& turns, std::size_t gathered) const {
  for (std::size_t i = 0; i + 1 < turns.size(); ++i) turns[i].next = turns[i + 1].own;
  if (s_.sharding.ahead_elements > 0) look_ahead(turns, gathered);
}

/// Of the turns from one on, those whose units are gathered ahead of them. Source: NVIDIA/
/// Megatron-LM megatron/core/distributed/fsdp/src/megatron_fsdp/param_and_grad_buffer.py,
/// AllGatherPipeline.all_gather_params @ core_v0.16.0: on while what is ahead is less.
std::size_t StageRun::units_ahead(const std::vector<Turn>& turns, std::size_t from) const {
  const std::int64_t most = s_.sharding.ahead_elements * bytes_of(s_.sharding.gathered);
  std::size_t count = 0;
  for (std::int64_t bytes = 0; bytes < most && from + count < turns.size(); ++count) {
    bytes += bytes_gathered(*turns[from + count].own);
  }
  return count;
}

void StageRun::look_ahead(std::vector<Turn>& turns, std::size_t gathered) const {
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::size_t end = i + 1 + units_ahead(turns, i + 1);
    for (; gathered < end; ++gathered) turns[i].ahead.push_back(turns[gathered].own);
  }
}

/// Buckets queue in the order of their completion: the head's, the blocks', the embedding's.
/// Source: the same file, GradReducePipeline.wait_for_previous_grad_reduce: before another one is
/// reduced the first ones go until the rest has no more elements than that.
void StageRun::queue_buckets(int chunk, std::vector<Turn>& turns) {
  const std::int64_t most = s_.sharding.queued_elements * bytes_of(s_.sharding.made);
  std::deque<std::int64_t> queue;
  std::int64_t queued = 0;
  const auto push = [&](const UnitWindows& unit) {
    std::int64_t freed = 0;
    for (const BucketBytes& bucket : unit.completed) {
      for (; queued > most; queue.pop_front()) {
        queued -= queue.front();
        freed += queue.front();
      }
      queue.push_back(bucket.made);
      queued += bucket.made;
    }
    return freed;
  };
  if (ends(chunk)) push(windows(s_.part.head_unit()));
  for (Turn& turn : turns) {
    if (turn.is_backward()) turn.freed = push(*turn.own);
  }
  QueueEnd& end = queue_ends_.emplace_back();
  if (begins(chunk)) end.freed = push(windows(s_.part.embedding_unit()));
  end.left = queued;
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
  const std::int64_t bytes = bytes_gathered(unit);
  if (pass == Pass::backward) return bytes;
  return std::accumulate(unit.kept.begin(), unit.kept.end(), bytes);
}

/// Source: pytorch torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, wait_for_unshard and
/// _backward_prefetch @ v2.11.0.
void StageRun::copy_out(const UnitWindows& own, const UnitWindows* next, Pass pass) {
  const std::int64_t bytes = buffer_bytes(own, pass);
  if (!gathered_ahead_) {
    make_apart(buffer(bytes));
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
  make_apart(buffer(buffered_));
}

/// What streams of their own have at most: all reduced gradients, and in a forward the buffers of a
/// unit and of the one before. The allocator keeps blocks by stream, and reduced gradients that
/// zero_grad has dropped stay there until the next backward. Sources: pytorch torch/distributed/
/// fsdp/_fully_shard/_fsdp_collectives.py, foreach_all_gather and foreach_reduce, and
/// c10/cuda/CUDACachingAllocator.cpp, get_free_block @ v2.11.0.
void StageRun::take_streams() {
  if (!s_.sharding.streams_apart) return;
  std::int64_t reduced = 0, buffers = 0, before = 0;
  for (const UnitWindows& unit : windows_) {
    if (grows_apart()) reduced += unit.growing;
    const std::int64_t own = s_.sharding.copies_out ? buffer_bytes(unit, Pass::forward) : 0;
    buffers = std::max(buffers, before + own);
    before = own;
  }
  make(idle(reduced + buffers));
}

void StageRun::make_apart(const Tensor& tensor) {
  if (s_.sharding.streams_apart) drop(idle(tensor.bytes));
  make(tensor);
}

void StageRun::drop_apart(const Tensor& tensor) {
  drop(tensor);
  if (s_.sharding.streams_apart) make(idle(tensor.bytes));
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
  if (grown() && !grows_apart()) return;
  if (!grown() && grows_apart()) return make_apart(gradients(own.growing));
  make(gradients(own.growing));
  if (grown()) drop(gradients(own.growing));
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

/// What is reduced is the rank's part, which is added to what it holds.
void StageRun::complete_queued(const UnitWindows& own, std::int64_t freed) {
  drop(gradients(freed));
  for (const BucketBytes& bucket : own.completed) {
    const std::int64_t part = bucket.made / s_.layout.ranks;
    make(gradients(part));
    drop(gradients(part));
  }
}

void StageRun::complete(const UnitWindows& own, std::int64_t freed) {
  if (s_.sharding.one_outer_unit) return complete_flat(own);
  if (s_.sharding.queued_elements > 0) return complete_queued(own, freed);
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

}  // namespace planwright::estimator
