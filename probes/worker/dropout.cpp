#include "probes/worker/dropout.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>

#include "probes/worker/counter_hash.h"
#include "probes/worker/row_loops.h"

namespace planwright::worker {
namespace {

/// Apart from the streams of tokens and of weights.
constexpr std::uint64_t kDropoutStream = 0x64726f706f757400ULL;
constexpr std::uint64_t kSites = 4;
constexpr std::int64_t kGrainElements = 8192;

void drop(const at::Tensor& x, const DropMask& mask, const at::Tensor* residual,
          const at::Tensor& y) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, x.scalar_type(), "drop", [&] {
    const auto* from = x.data_ptr<scalar_t>();
    const auto* add = residual == nullptr ? nullptr : residual->data_ptr<scalar_t>();
    auto* to = y.data_ptr<scalar_t>();
    at::parallel_for(0, x.numel(), kGrainElements, [&](std::int64_t begin, std::int64_t end) {
      row_loops::drop(from + begin, add == nullptr ? nullptr : add + begin, end - begin,
                      {mask.probability, mask.stream, mask.first + begin}, to + begin);
    });
  });
}

}  // namespace

DropMask Dropout::mask(DropSite site, std::int64_t layer, std::int64_t per_sample,
                       std::int64_t first) const {
  const std::uint64_t place =
      kSites * static_cast<std::uint64_t>(layer) + static_cast<std::uint64_t>(site);
  return {site == DropSite::attention_weights ? attention : hidden,
          counter_hash(counter_hash(seed, kDropoutStream), place),
          first_sample * per_sample + first};
}

void drop(const at::Tensor& x, const DropMask& mask, const at::Tensor& y) {
  drop(x, mask, nullptr, y);
}

void drop_and_add(const at::Tensor& x, const DropMask& mask, const at::Tensor& residual) {
  drop(x, mask, &residual, x);
}

}  // namespace planwright::worker
