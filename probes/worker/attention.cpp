#include "probes/worker/attention.h"

namespace planwright::worker {

at::Tensor heads_view(const at::Tensor& rows, std::int64_t first_head, std::int64_t heads,
                      std::int64_t head_dim, std::int64_t batch) {
  const std::int64_t seq = rows.size(0) / batch;
  return rows.narrow(1, first_head * head_dim, heads * head_dim)
      .view({batch, seq, heads, head_dim})
      .transpose(1, 2);
}

}  // namespace planwright::worker
