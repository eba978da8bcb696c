#include "probes/worker/dump.h"

#include <ATen/core/Tensor.h>

#include <fstream>
#include <stdexcept>

#include "probes/worker/model_state.h"

namespace planwright::worker {

void dump_flat(const std::string& path, const at::Tensor& flat, const FlatLayout& layout,
               std::optional<double> first, double factor) {
  std::ofstream out(path, std::ios::binary);
  const auto write = [&](const double* values, std::int64_t count) {
    out.write(reinterpret_cast<const char*>(values),
              static_cast<std::streamsize>(count * static_cast<std::int64_t>(sizeof(double))));
  };
  if (first) write(&*first, 1);
  for (const FlatTensor& tensor : layout.tensors) {
    const at::Tensor values = tensor_view(flat, tensor).to(at::kCPU, at::kDouble).mul(factor);
    write(values.data_ptr<double>(), values.numel());
  }
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace planwright::worker
