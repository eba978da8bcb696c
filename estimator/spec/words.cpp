#include "estimator/spec/words.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <numeric>

namespace planwright {
namespace {

bool same_letter(char a, char b) {
  return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
}

/// Inserted, deleted and replaced letters, and neighbours that stand the wrong way round; capitals
/// apart.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> cost(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) cost[i][0] = i;
  std::iota(cost[0].begin(), cost[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = cost[i - 1][j - 1] + (same_letter(a[i - 1], b[j - 1]) ? 0 : 1);
      cost[i][j] = std::min({replaced, cost[i - 1][j] + 1, cost[i][j - 1] + 1});
      if (i > 1 && j > 1 && same_letter(a[i - 1], b[j - 2]) && same_letter(a[i - 2], b[j - 1])) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

std::size_t most_edits(std::string_view text, std::string_view word) {
  if (!text.empty() && same_letters(text, word.substr(0, text.size()))) return word.size();
  return std::max<std::size_t>(1, std::max(text.size(), word.size()) / 3);
}

}  // namespace

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), same_letter);
}

std::string nearest_word(std::string_view text, const std::vector<std::string>& valid) {
  std::string best;
  std::size_t best_distance = std::numeric_limits<std::size_t>::max();
  for (const auto& candidate : valid) {
    const std::size_t most = most_edits(text, candidate);
    // Not even looked at: a text from a file may be of any length.
    if (text.size() > candidate.size() + most) continue;
    const std::size_t distance = edit_distance(text, candidate);
    if (distance <= most && distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string nearest_word(std::string_view text, const std::vector<std::string>& valid,
                         std::string_view before, std::string_view after) {
  const std::string nearest = nearest_word(text, valid);
  return nearest.empty() ? "" : std::string(before) + nearest + std::string(after);
}

std::string join_words(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

}  // namespace planwright
