#include "probes/worker/device_memory.h"

#include <atomic>
#include <string>

namespace planwright::worker {
namespace {

std::atomic<Account> account_now{Account::activations};
std::atomic<Phase> phase_now{Phase::load};

std::string text(const OutOfMemory& facts) {
  return "device memory is full: " + std::to_string(facts.requested.value) +
         " bytes requested with " + std::to_string(facts.allocated.value) + " of " +
         std::to_string(facts.capacity.value) + " allocated";
}

}  // namespace

DeviceOutOfMemory::DeviceOutOfMemory(const OutOfMemory& facts)
    : std::runtime_error(text(facts)), facts_(facts) {}

Account current_account() { return account_now.load(std::memory_order_relaxed); }
Phase current_phase() { return phase_now.load(std::memory_order_relaxed); }

AccountScope::AccountScope(Account account) : before_(account_now.exchange(account)) {}
AccountScope::~AccountScope() { account_now = before_; }

PhaseScope::PhaseScope(Phase phase) : before_(phase_now.exchange(phase)) {}
PhaseScope::~PhaseScope() { phase_now = before_; }

}  // namespace planwright::worker
