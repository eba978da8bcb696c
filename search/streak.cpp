#include "search/streak.h"

#include <cctype>
#include <sstream>

namespace planwright::search {
namespace {

/// Without what differs from plan to plan.
std::string gist(const Failure& failure) {
  std::istringstream words(failure.detail);
  std::string gist(word(failure.kind));
  for (std::string each; words >> each;) {
    if (each.find('/') != each.npos) continue;
    gist += ' ';
    for (const char c : each) {
      if (std::isdigit(static_cast<unsigned char>(c)) == 0) gist += c;
    }
  }
  return gist;
}

}  // namespace

void Streak::add(const Trial& trial) {
  const Failure* const failure = trial.outcome.failure();
  std::string said = failure == nullptr ? "" : gist(*failure);
  length_ = failure == nullptr ? 0 : said == said_ ? length_ + 1 : 1;
  said_ = std::move(said);
}

}  // namespace planwright::search
