#include "estimator/te_fp8.h"

namespace planwright::estimator::tape {
namespace {

std::int64_t in_blocks(std::int64_t elements, std::int64_t block) {
  return (elements + block - 1) / block;
}

std::int64_t padded(std::int64_t elements, std::int64_t multiple) {
  return in_blocks(elements, multiple) * multiple;
}

/// Blocks along the dimension that is summed up, of each place of the other.
std::int64_t scale_bytes(const Fp8& fp8, std::int64_t summed, std::int64_t other) {
  switch (fp8.recipe) {
    case Fp8Recipe::blockwise:
      return 4 * in_blocks(summed, 128) * padded(other, 4);
    case Fp8Recipe::mxfp8:
      return padded(in_blocks(summed, 32), 4) * padded(other, 128);
    default:
      return 0;
  }
}

std::int64_t square_scale_bytes(std::int64_t outer, std::int64_t inner) {
  return 4 * in_blocks(outer, 128) * padded(in_blocks(inner, 128), 4);
}

}  // namespace

Fp8 fp8_of(Fp8Recipe recipe, double capability) {
  const bool reads_any = (capability >= 10 && capability < 12) || capability >= 13;
  return {recipe, !reads_any};
}

std::int64_t row_bytes(const Fp8& fp8, const NarrowMatrix& m) {
  return m.elements() + scale_bytes(fp8, m.columns, m.rows);
}

std::int64_t column_bytes(const Fp8& fp8, const NarrowMatrix& m) {
  return m.elements() + scale_bytes(fp8, m.rows, m.columns);
}

std::int64_t weight_bytes(const Fp8& fp8, const NarrowMatrix& m) {
  if (!fp8.copies_columns()) return m.elements();
  if (fp8.recipe != Fp8Recipe::blockwise) return row_bytes(fp8, m) + column_bytes(fp8, m);
  return 2 * m.elements() + square_scale_bytes(m.rows, m.columns) +
         square_scale_bytes(m.columns, m.rows);
}

}  // namespace planwright::estimator::tape
