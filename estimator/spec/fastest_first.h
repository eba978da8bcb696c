#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace planwright {

/// A measurement in a unit in which less is better, and its place among all of its study.
struct Timing {
  double time = 0;
  std::size_t at = 0;
};

/// What was measured of a candidate.
struct Timed {
  Timing first;
  std::optional<Timing> again;  ///< the last one of more steps, beside others' in turns
};

/// The order of the candidates, as indices, equals in the order given. Those measured again stand
/// by it, at another time of the machine than the first measurements were made: by how much two or
/// more of them changed together, first ones from before are thought to have changed as well.
std::vector<std::size_t> fastest_first(const std::vector<Timed>& candidates);

}  // namespace planwright
