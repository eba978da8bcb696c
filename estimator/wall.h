#pragma once

#include <string>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/estimate.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"

/// What an estimate runs into: the account that rules its peak, and what could cut that account.
namespace planwright::estimator {

/// The one with the most bytes, the first of equals.
Account largest_account(const Ledger& ledger);

/// The largest account of the peak, and its share of the allocated bytes.
struct Ruler {
  Account account = Account::parameters;
  double share = 0;
};
Ruler ruling_account(const Estimate& estimate);

/// Techniques of the target that cut the account and that the candidate does not use to the end
/// yet, the cheapest first: names for people.
std::vector<std::string> movers(const Problem& problem, const TargetTraits& traits,
                                const Candidate& candidate, Account account);

}  // namespace planwright::estimator
