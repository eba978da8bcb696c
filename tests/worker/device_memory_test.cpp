#include "probes/worker/device_memory.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <new>
#include <vector>

#include "model_fixture.h"

namespace planwright::worker {
namespace {

/// What a piece of code changed in the books.
class Change {
 public:
  Bytes of(Account account) const { return live_memory()[account] - before_[account]; }
  Bytes in_all() const { return live_memory().allocated() - before_.allocated(); }

 private:
  Ledger before_ = live_memory();
};

TEST(DeviceMemory, counts_a_tensor_to_the_byte_for_as_long_as_it_lives) {
  const Change change;
  {
    const at::Tensor a = at::empty({3, 7}, at::kFloat);
    const at::Tensor b = at::empty({5}, at::kBFloat16);
    EXPECT_EQ(change.of(Account::activations), Bytes{3 * 7 * 4 + 5 * 2});
    const at::Tensor view = a.narrow(0, 1, 2);
    EXPECT_EQ(change.in_all(), Bytes{3 * 7 * 4 + 5 * 2});
  }
  EXPECT_EQ(change.in_all(), Bytes{0});
}

TEST(DeviceMemory, takes_an_empty_tensor_for_nothing) {
  const Change change;
  const at::Tensor none = at::empty({0}, at::kFloat);
  EXPECT_EQ(none.numel(), 0);
  EXPECT_EQ(change.in_all(), Bytes{0});
}

TEST(DeviceMemory, keeps_the_alignment_that_libtorch_promises) {
  for (const std::int64_t n : {1, 3, 64, 1000, 1 << 20}) {
    const at::Tensor tensor = at::empty({n}, at::kByte);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data_ptr()) % 64, 0U) << n;
  }
}

TEST(DeviceMemory, books_to_the_innermost_scope) {
  const Change change;
  const AccountScope outer(Account::optimizer);
  const at::Tensor a = at::empty({10}, at::kByte);
  {
    const AccountScope inner(Account::logits);
    const at::Tensor b = at::empty({20}, at::kByte);
    EXPECT_EQ(change.of(Account::logits), Bytes{20});
  }
  const at::Tensor c = at::empty({30}, at::kByte);
  EXPECT_EQ(change.of(Account::optimizer), Bytes{40});
  EXPECT_EQ(change.of(Account::logits), Bytes{0});
}

TEST(DeviceMemory, sees_what_the_threads_of_an_operator_allocate) {
  const Change change;
  std::vector<at::Tensor> made(64);
  {
    const WorkspaceScope scope;
    at::parallel_for(0, 64, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) made[i] = at::empty({100}, at::kByte);
    });
  }
  EXPECT_EQ(change.of(Account::workspace), Bytes{6400});
  at::parallel_for(0, 64, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) made[i].reset();
  });
  EXPECT_EQ(change.in_all(), Bytes{0});
}

TEST(DeviceMemory, rebooks_a_tensor_and_frees_it_from_its_new_account) {
  const Change change;
  {
    at::Tensor result;
    {
      const WorkspaceScope scope;
      result = at::empty({50}, at::kByte);
    }
    EXPECT_EQ(change.of(Account::workspace), Bytes{50});
    rebook(result.narrow(0, 10, 5), Account::activations);  // the storage is what is booked
    EXPECT_EQ(change.of(Account::workspace), Bytes{0});
    EXPECT_EQ(change.of(Account::activations), Bytes{50});
  }
  EXPECT_EQ(change.in_all(), Bytes{0});
}

TEST(DeviceMemory, reports_peaks_with_the_phase_they_fell_into) {
  reset_memory_peaks();
  const Bytes before = live_memory().allocated();
  {
    const PhaseScope phase(Phase::backward);
    const at::Tensor passing = at::empty({1000}, at::kByte);
  }
  EXPECT_EQ(memory_peaks().allocated.allocated(), before + Bytes{1000});
  EXPECT_EQ(memory_peaks().allocated_phase, Phase::backward);
}

TEST(DeviceMemory, refuses_what_would_exceed_the_budget_and_says_what_was_wanted) {
  const Bytes used = live_memory().allocated();
  const BudgetScope budget(used + Bytes{1000});
  const at::Tensor fits = at::empty({600}, at::kByte);
  const Change change;
  const PhaseScope phase(Phase::loss);
  const AccountScope account(Account::logits);
  try {
    const at::Tensor too_much = at::empty({401}, at::kByte);
    FAIL() << "401 bytes were given where 400 are left";
  } catch (const std::exception& error) {
    const auto facts = out_of_memory(error);
    ASSERT_TRUE(facts.has_value());
    EXPECT_EQ(facts->requested, Bytes{401});
    EXPECT_EQ(facts->allocated, used + Bytes{600});
    EXPECT_EQ(facts->capacity, used + Bytes{1000});
    EXPECT_EQ(facts->account, Account::logits);
    EXPECT_EQ(facts->phase, Phase::loss);
    EXPECT_STREQ(error.what(), DeviceOutOfMemory(*facts).what());
  }
  EXPECT_EQ(change.in_all(), Bytes{0});
  EXPECT_NO_THROW(at::empty({400}, at::kByte));
}

TEST(DeviceMemory, counts_workspace_against_the_budget) {
  const BudgetScope budget(live_memory().allocated() + Bytes{1000});
  const at::Tensor a = at::ones({8, 8}, at::kFloat);  // 256 bytes
  const WorkspaceScope scope;
  EXPECT_THROW(at::empty({745}, at::kByte), DeviceOutOfMemory);
}

TEST(DeviceMemory, lets_an_operator_fail_inside_and_stays_consistent) {
  const at::Tensor a = at::ones({64, 64}, at::kFloat);
  const Change change;
  {
    const BudgetScope budget(live_memory().allocated() + Bytes{100});
    EXPECT_THROW(at::matmul(a, a), DeviceOutOfMemory);
  }
  EXPECT_EQ(change.in_all(), Bytes{0});
  EXPECT_NO_THROW(at::matmul(a, a));
}

TEST(DeviceMemory, takes_other_errors_for_what_they_are) {
  EXPECT_FALSE(out_of_memory(std::bad_alloc()).has_value());
  EXPECT_FALSE(out_of_memory(std::runtime_error("device memory is full")).has_value());
}

TEST(DeviceMemory, knows_the_resident_peak_of_the_process) {
  const auto rss = memory_outside().rss_peak;
  ASSERT_TRUE(rss.has_value());
  EXPECT_GT(rss->value, 1 << 20);
}

}  // namespace
}  // namespace planwright::worker
