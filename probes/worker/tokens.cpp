#include "probes/worker/tokens.h"

#include <ATen/ops/empty.h>

namespace planwright::worker {
namespace {

at::Tensor tokens_from(std::uint64_t seed, std::int64_t first, std::int64_t batch, std::int64_t seq,
                       std::int64_t vocab, std::int64_t shift, at::Device device) {
  at::Tensor out = at::empty({batch * seq}, at::TensorOptions(at::kLong).device(device));
  at::Tensor host = device.is_cpu() ? out : at::empty({batch * seq}, at::kLong);
  std::int64_t* next = host.data_ptr<std::int64_t>();
  for (std::int64_t sample = first; sample < first + batch; ++sample) {
    for (std::int64_t i = 0; i < seq; ++i) *next++ = token(seed, sample, i + shift, vocab);
  }
  if (!device.is_cpu()) out.copy_(host);
  return out;
}

}  // namespace

MicroBatch micro_batch(std::uint64_t seed, std::int64_t first, std::int64_t batch, std::int64_t seq,
                       std::int64_t vocab, at::Device device, TokenEnds ends) {
  MicroBatch out{{}, {}, batch, seq};
  if (ends.ids) out.ids = tokens_from(seed, first, batch, seq, vocab, 0, device);
  if (ends.targets) out.targets = tokens_from(seed, first, batch, seq, vocab, 1, device);
  return out;
}

}  // namespace planwright::worker
