#include "search/refusal.h"

#include <algorithm>

namespace planwright::search {

RefusalCount::RefusalCount(const Problem& problem, const std::vector<Rule>& rules)
    : problem_(problem), rules_(rules), counts_(rules.size()) {}

void RefusalCount::add(const Candidate& candidate) {
  std::vector<std::size_t> broken;
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (!rules_[i].broken(problem_, candidate)) continue;
    broken.push_back(i);
    ++counts_[i];
  }
  if (candidates_++ > 0 && broken.size() >= of_nearest_.size()) return;
  nearest_ = candidate;
  of_nearest_ = std::move(broken);
}

BrokenRule RefusalCount::explained(std::size_t rule) const {
  return explain(rules_[rule], problem_, nearest_);
}

Refusal RefusalCount::refusal() const {
  Refusal refusal;
  refusal.nearest = nearest_;
  for (const std::size_t i : of_nearest_) {
    (counts_[i] == candidates_ ? refusal.always : refusal.of_nearest).push_back(explained(i));
  }
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    if (counts_[i] == 0 || counts_[i] == candidates_) continue;
    refusal.sometimes.emplace_back(rules_[i].name, counts_[i]);
  }
  std::stable_sort(refusal.sometimes.begin(), refusal.sometimes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return refusal;
}

}  // namespace planwright::search
