#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/rules.h"

namespace planwright::search {

/// Why no candidate of a space is legal, over all rules that each of them breaks. The first one
/// alone does not tell: mended, another may stand behind it.
struct Refusal {
  std::vector<BrokenRule> always;  ///< those that every candidate breaks, in the rules' order
  /// How many candidates break each of the other rules, the most first.
  std::vector<std::pair<std::string, std::int64_t>> sometimes;
  /// The first of the candidates that break the fewest rules, and what it breaks beside the above.
  Candidate nearest;
  std::vector<BrokenRule> of_nearest;
};

/// Looks at candidates as long as none is legal.
class RefusalCount {
 public:
  /// Both must outlive this.
  RefusalCount(const Problem& problem, const std::vector<Rule>& rules);
  void add(const Candidate& candidate);
  /// In the words of the nearest candidate; empty if there was none.
  Refusal refusal() const;

 private:
  BrokenRule explained(std::size_t rule) const;

  const Problem& problem_;
  const std::vector<Rule>& rules_;
  std::vector<std::int64_t> counts_;  ///< by rule
  std::int64_t candidates_ = 0;
  Candidate nearest_;
  std::vector<std::size_t> of_nearest_;  ///< indices of rules
};

}  // namespace planwright::search
