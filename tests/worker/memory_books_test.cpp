#include "probes/worker/memory_books.h"

#include <gtest/gtest.h>

namespace planwright::worker {
namespace {

TEST(MemoryBooks, keep_what_is_live_by_account) {
  MemoryBooks books;
  books.add(Account::parameters, Bytes{100}, Phase::load);
  books.add(Account::workspace, Bytes{30}, Phase::forward);
  books.remove(Account::workspace, Bytes{30});
  books.add(Account::activations, Bytes{5}, Phase::forward);
  EXPECT_EQ(books.live()[Account::parameters], Bytes{100});
  EXPECT_EQ(books.live()[Account::workspace], Bytes{0});
  EXPECT_EQ(books.live()[Account::activations], Bytes{5});
  EXPECT_EQ(books.allocated(), Bytes{105});
  EXPECT_EQ(books.live().allocated(), books.allocated());
}

TEST(MemoryBooks, hold_each_peak_with_the_accounts_of_its_own_instant) {
  MemoryBooks books;
  books.add(Account::activations, Bytes{10}, Phase::forward);
  books.add(Account::workspace, Bytes{50}, Phase::forward);  // the largest sum: 60
  books.remove(Account::workspace, Bytes{50});
  books.add(Account::logits, Bytes{25}, Phase::loss);  // the largest sum of tensors: 35
  EXPECT_EQ(books.peaks().allocated.allocated(), Bytes{60});
  EXPECT_EQ(books.peaks().allocated[Account::workspace], Bytes{50});
  EXPECT_EQ(books.peaks().allocated_phase, Phase::forward);
  EXPECT_EQ(books.peaks().tensors.tensors(), Bytes{35});
  EXPECT_EQ(books.peaks().tensors[Account::logits], Bytes{25});
  EXPECT_EQ(books.peaks().tensors_phase, Phase::loss);
}

TEST(MemoryBooks, see_a_tensor_peak_when_a_result_leaves_the_workspace) {
  MemoryBooks books;
  books.add(Account::workspace, Bytes{40}, Phase::forward);
  EXPECT_EQ(books.peaks().tensors.tensors(), Bytes{0});
  books.move(Account::workspace, Account::activations, Bytes{40}, Phase::forward);
  EXPECT_EQ(books.peaks().tensors.tensors(), Bytes{40});
  EXPECT_EQ(books.peaks().allocated.allocated(), Bytes{40});
  EXPECT_EQ(books.live()[Account::workspace], Bytes{0});
}

TEST(MemoryBooks, forget_older_peaks_but_not_what_is_live) {
  MemoryBooks books;
  books.add(Account::parameters, Bytes{7}, Phase::load);
  books.add(Account::activations, Bytes{90}, Phase::forward);
  books.remove(Account::activations, Bytes{90});
  books.reset_peaks(Phase::optimizer);
  EXPECT_EQ(books.peaks().allocated.allocated(), Bytes{7});
  EXPECT_EQ(books.peaks().allocated_phase, Phase::optimizer);
  books.add(Account::activations, Bytes{1}, Phase::backward);
  EXPECT_EQ(books.peaks().allocated.allocated(), Bytes{8});
  EXPECT_EQ(books.peaks().allocated_phase, Phase::backward);
}

TEST(MemoryBooks, keep_the_earlier_of_two_equal_peaks) {
  MemoryBooks books;
  books.add(Account::activations, Bytes{9}, Phase::forward);
  books.remove(Account::activations, Bytes{9});
  books.add(Account::logits, Bytes{9}, Phase::loss);
  EXPECT_EQ(books.peaks().allocated_phase, Phase::forward);
  EXPECT_EQ(books.peaks().tensors[Account::activations], Bytes{9});
}

}  // namespace
}  // namespace planwright::worker
