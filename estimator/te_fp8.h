#pragma once

#include <cstdint>

#include "estimator/spec/te_modules.h"

/// Matrices in 8 bits as Transformer Engine stores them for products. Sources:
/// NVIDIA/TransformerEngine transformer_engine/pytorch @ v2.11, tensor/float8_tensor.py,
/// float8_blockwise_tensor.py, mxfp8_tensor.py, and csrc/quantizer.cpp.
namespace planwright::estimator::tape {

struct NarrowMatrix {
  std::int64_t rows = 0, columns = 0;
  std::int64_t elements() const { return rows * columns; }
};

/// How a rank's products take their operands.
struct Fp8 {
  Fp8Recipe recipe = Fp8Recipe::none;
  /// A product sums along the rows of both operands, so that one that sums along columns takes a
  /// transposed copy. Otherwise, of tensors with one scale, it takes the same bytes.
  bool transposes = true;

  bool any() const { return recipe != Fp8Recipe::none; }
  /// Each tensor has one scale, of 4 bytes, which are not counted.
  bool scales_tensors() const {
    return recipe == Fp8Recipe::delayed || recipe == Fp8Recipe::tensorwise;
  }
  /// Whether what sums along columns is another copy.
  bool copies_columns() const { return transposes || !scales_tensors(); }
};

/// On a device of that compute capability; 0, if it is not known, stands for those that transpose.
/// Source: pytorch/utils.py, is_non_tn_fp8_gemm_supported.
Fp8 fp8_of(Fp8Recipe recipe, double capability);

/// A copy with the scales of what a product sums up along rows, or along columns. Blocks of 128
/// have a scale of 4 bytes, with rows (columns) padded to 4; blocks of 32 have one of a byte,
/// padded to tiles of 128 by 4.
std::int64_t row_bytes(const Fp8& fp8, const NarrowMatrix& matrix);
std::int64_t column_bytes(const Fp8& fp8, const NarrowMatrix& matrix);

/// Of a weight what forward and backward take. Its blocks of 128 are square.
std::int64_t weight_bytes(const Fp8& fp8, const NarrowMatrix& matrix);

}  // namespace planwright::estimator::tape
