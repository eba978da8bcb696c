#include "estimator/spec/weight_format.h"

#include <algorithm>

#include "estimator/spec/error.h"

namespace planwright {
namespace {

constexpr std::int64_t kWholeByte = 8;

std::int64_t parts(std::int64_t whole, std::int64_t part) {
  return part == 0 ? 1 : (whole + part - 1) / part;
}

std::int64_t scale_count(const ScaleGroup& group, std::int64_t rows, std::int64_t columns) {
  if (group.run > 0) return parts(rows * columns, group.run);
  return parts(rows, group.rows) * parts(columns, group.columns);
}

std::int64_t scale_bits(const WeightFormat& f, std::int64_t scales) {
  if (f.scales_per_scale == 0) return scales * f.scale_bits;
  return scales * kWholeByte + parts(scales, f.scales_per_scale) * f.scale_bits;
}

std::vector<WeightFormat> make_formats() {
  const ScaleGroup each_row{.rows = 1}, groups_of_128{.rows = 1, .columns = 128};
  return {
      // bitsandbytes functional.py, quantize_4bit: blocks of 64 in memory order with an fp32 scale;
      // compress_statistics quantises those in blocks of 256.
      {.name = "nf4", .type = WeightType::nf4, .group = {.run = 64}, .scale_bits = 32},
      {.name = "nf4-dq",
       .type = WeightType::nf4,
       .group = {.run = 64},
       .scale_bits = 32,
       .scales_per_scale = 256},
      {.name = "fp4", .type = WeightType::fp4, .group = {.run = 64}, .scale_bits = 32},
      {.name = "fp4-dq",
       .type = WeightType::fp4,
       .group = {.run = 64},
       .scale_bits = 32,
       .scales_per_scale = 256},
      // bitsandbytes nn/modules.py, Int8Params: SCB, one fp32 per output row.
      {.name = "int8", .type = WeightType::int8, .group = each_row, .scale_bits = 32},
      // Nothing but the integers: what is meant by a model's size in int4.
      {.name = "int4", .type = WeightType::int4},
      // AutoGPTQ qlinear: fp16 scales, 4-bit zero points per group, an int32 per input column.
      {.name = "gptq",
       .type = WeightType::int4,
       .group = groups_of_128,
       .scale_bits = 16,
       .zero_bits = 4,
       .column_index_bits = 32},
      // AutoAWQ gemm: the same without the columns' index.
      {.name = "awq",
       .type = WeightType::int4,
       .group = groups_of_128,
       .scale_bits = 16,
       .zero_bits = 4},
      // One fp32 scale per output row (FBGEMM, compressed-tensors' channel strategy).
      {.name = "fp8", .type = WeightType::fp8, .group = each_row, .scale_bits = 32},
      // DeepSeek-V3: one fp32 scale per 128 x 128 weights.
      {.name = "fp8-block",
       .type = WeightType::fp8,
       .group = {.rows = 128, .columns = 128},
       .scale_bits = 32},
      // OCP Microscaling Formats v1.0, section 6: 32 elements share an 8-bit exponent.
      {.name = "mxfp4",
       .type = WeightType::fp4,
       .group = {.rows = 1, .columns = 32},
       .scale_bits = 8},
      // NVFP4: 16 elements share an fp8 scale; the fp32 scale of the tensor is left out.
      {.name = "nvfp4",
       .type = WeightType::fp4,
       .group = {.rows = 1, .columns = 16},
       .scale_bits = 8},
      // NVIDIA Ampere's structured sparsity, of 16-bit weights.
      {.name = "sparse-2:4", .type = WeightType::bf16, .sparse_2_4 = true},
  };
}

}  // namespace

namespace {

std::int64_t packed_bits(const WeightFormat& f, std::int64_t elements) {
  if (!f.sparse_2_4) return elements * bits_of(f.type);
  return elements / 2 * (2 + bits_of(f.type));
}

}  // namespace

Bytes packed_bytes(const WeightFormat& f, std::int64_t rows, std::int64_t columns) {
  return {parts(packed_bits(f, rows * columns), kWholeByte)};
}

Bytes stored_bytes(const WeightFormat& f, std::int64_t rows, std::int64_t columns) {
  std::int64_t bits = packed_bits(f, rows * columns);
  if (f.scale_bits > 0) {
    const std::int64_t scales = scale_count(f.group, rows, columns);
    bits += scale_bits(f, scales) + scales * f.zero_bits;
  }
  bits += columns * f.column_index_bits;
  return {parts(bits, kWholeByte)};
}

const std::vector<WeightFormat>& weight_formats() {
  static const std::vector<WeightFormat> kFormats = make_formats();
  return kFormats;
}

WeightFormat find_weight_format(std::string_view name, const std::string& file,
                                const std::string& key) {
  std::vector<std::string> names;
  for (const WeightFormat& each : weight_formats()) {
    if (each.name == name) return each;
    names.push_back(each.name);
  }
  throw InputError({file, key, std::string(name), "must be one of none, " + join_words(names),
                    nearest_word(name, names)});
}

WeightFormat plain_format(WeightType type) {
  return {.name = std::string(word(type)), .type = type};
}

}  // namespace planwright
