#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/ledger.h"
#include "estimator/spec/model_spec.h"
#include "estimator/spec/serving.h"
#include "estimator/spec/time_split.h"
#include "estimator/spec/units.h"

namespace planwright {

enum class Verdict { fits, too_large, invalid };
template <>
struct Words<Verdict> {
  static constexpr std::array<std::string_view, 3> kWords{"fits", "too_large", "invalid"};
};

/// Whether what rules the peak stays when the batch shrinks (weights and states) or shrinks with
/// it.
enum class Wall { stays, moves };
template <>
struct Words<Wall> {
  static constexpr std::array<std::string_view, 2> kWords{"static", "dynamic"};
};

/// A stage's ledger at its own peak. `reserved` and `device_used` exist on accelerators only.
struct StageEstimate {
  int stage = 0;
  Phase phase = Phase::load;
  Ledger accounts;
  Bytes tensor_peak;  ///< the most that tensors alone take, maybe at another moment; exact
  std::optional<Bytes> reserved, device_used;
  bool operator==(const StageEstimate&) const = default;
};

/// What one candidate is expected to need and to do. Made by estimator/price.
struct Estimate {
  Verdict verdict = Verdict::fits;
  std::string
      reason;  ///< the broken rule, or account, rank, phase, shortfall and a change that fits
  ParameterCounts parameters;
  int peak_rank = 0;
  int peak_stage = 0;                 ///< index into `stages`
  std::vector<StageEstimate> stages;  ///< empty when invalid
  Ledger loaded;                      ///< after the model and its optimizer states are made
  Bytes host_bytes;  ///< of the fullest node, by what is offloaded; 0 where nothing is
  Wall wall = Wall::stays;
  Seconds step_time;
  TimeSplit time;
  double tokens_per_second_per_device = 0;
  std::optional<double> mfu;  ///< absent where the device's peak is not known
  double memory_rel = 0;      ///< sd of the allocated peak, relative
  double time_rel = 0;        ///< sd of the step time, relative
  double fit_probability = 0;
  std::string calibration;                   ///< id of the Calibration it was priced with
  std::optional<ServingEstimate> serving{};  ///< of the job inference

  bool operator==(const Estimate&) const = default;
  const StageEstimate& peak() const { return stages.at(static_cast<std::size_t>(peak_stage)); }
};

}  // namespace planwright
