#pragma once

#include "estimator/step_shape.h"

/// What the flops and bytes of a block's products follow from.
namespace planwright::estimator {

/// Widths of a block's tensors, in elements per token, of this rank's share.
struct Widths {
  double hidden, attention, kv, ffn, up;
  double values;  ///< of attention's result
  double mixing;  ///< weights of attention's own products, as each token goes through them
  double others;  ///< weights of the MLP that are read, for each of those that a token uses
};

/// The experts' are those that a token uses.
Widths widths_of(const StepShape& s, const BlockSpec& block);

inline double qkv_width(const Widths& w) { return w.attention + 2 * w.kv; }

/// Weights of the MLP's products.
inline double mlp_weights(const Widths& w) { return w.hidden * (w.up + w.ffn); }
inline double weights_of(const Widths& w) { return w.mixing + mlp_weights(w); }
/// Those, and of experts that a token does not go through.
inline double read_weights(const Widths& w) { return weights_of(w) + w.others * mlp_weights(w); }

/// Of latent attention, those that lead up from the latent vectors.
double leading_up_weights(const StepShape& s, const BlockSpec& block);

/// Of products with `weights`, as many as take their time in the type that is computed in.
double product_flops(const StepShape& s, double weights);
/// Beside those products of the MLP with `weights`, what they read of other experts.
double other_weights(const StepShape& s, const Widths& w, double weights);

/// Tokens for which this rank does what is done to each token by itself, as a share of all.
double local_share(const StepShape& s);

}  // namespace planwright::estimator
