#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/units.h"
#include "estimator/spec/words.h"

/// How a model's linear layers may be stored, beyond the types that arithmetic has.
namespace planwright {

enum class WeightType { fp32, bf16, fp16, fp8, int8, int4, nf4, fp4 };
template <>
struct Words<WeightType> {
  static constexpr std::array<std::string_view, 8> kWords{"fp32", "bf16", "fp16", "fp8",
                                                          "int8", "int4", "nf4",  "fp4"};
};
constexpr std::int64_t bits_of(WeightType type) {
  return std::array<std::int64_t, 8>{32, 16, 16, 8, 8, 4, 4, 4}[static_cast<std::size_t>(type)];
}

/// The elements that share one scale: a rectangle of a matrix [rows, columns], or a run of its
/// elements in memory; 0 stands for all of that dimension.
struct ScaleGroup {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t run = 0;  ///< above 0: that many elements in a row, whatever the matrix's shape
  bool operator==(const ScaleGroup&) const = default;
};

struct WeightFormat {
  std::string name{};  ///< as --quant spells it, or as a checkpoint does
  WeightType type = WeightType::bf16;
  ScaleGroup group{};
  std::int64_t scale_bits = 0;  ///< 0: there are none
  std::int64_t zero_bits = 0;   ///< of the zero point beside each scale
  /// The scales are stored as bytes, with a wider scale for each so many of them: double
  /// quantisation.
  std::int64_t scales_per_scale = 0;
  std::int64_t column_index_bits = 0;  ///< GPTQ's: which group each column belongs to
  /// Two of four neighbours are zero and not stored; a 2-bit index says where each other one is.
  bool sparse_2_4 = false;
  std::vector<std::string> kept{};  ///< self_attn, mlp: what a checkpoint leaves in its own type
  bool operator==(const WeightFormat&) const = default;
};

/// Of a weight [rows, columns], scales and indices included; exact but for the alignment of
/// tensors. Sources: data of each format's own packing, beside the table in weight_format.cpp.
Bytes stored_bytes(const WeightFormat& format, std::int64_t rows, std::int64_t columns);

/// The weights alone of that.
Bytes packed_bytes(const WeightFormat& format, std::int64_t rows, std::int64_t columns);

/// Every format that has a name, as --quant takes it.
const std::vector<WeightFormat>& weight_formats();
/// The one of that name, or an InputError that names `file`, `key` and the nearest.
WeightFormat find_weight_format(std::string_view name, const std::string& file,
                                const std::string& key);
/// Of a plain type.
WeightFormat plain_format(WeightType type);

}  // namespace planwright
