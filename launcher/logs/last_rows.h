#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace planwright::launcher {

/// The last `most` rows that were added.
template <class Row>
class LastRows {
 public:
  explicit LastRows(std::size_t most) : most_(most) {}

  void add(const Row& row) {
    if (rows_.size() < most_) {
      rows_.push_back(row);
    } else {
      rows_[oldest_] = row;
      oldest_ = oldest_ + 1 < most_ ? oldest_ + 1 : 0;
    }
    ++added_;
  }
  std::int64_t added() const { return added_; }

  /// The row that was added as this one, counted from 0; null if it is not kept.
  Row* find(std::int64_t number) {
    const auto back = static_cast<std::size_t>(added_ - number);
    if (number < 0 || number >= added_ || back > rows_.size()) return nullptr;
    const std::size_t place = oldest_ + rows_.size() - back;
    return &rows_[place < rows_.size() ? place : place - rows_.size()];
  }

  /// The oldest first.
  std::vector<Row> in_order() const {
    std::vector<Row> rows(rows_.size());
    std::rotate_copy(rows_.begin(), rows_.begin() + static_cast<std::ptrdiff_t>(oldest_),
                     rows_.end(), rows.begin());
    return rows;
  }

 private:
  std::size_t most_;
  std::vector<Row> rows_;
  std::size_t oldest_ = 0;
  std::int64_t added_ = 0;
};

}  // namespace planwright::launcher
