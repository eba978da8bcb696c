#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planwright::launcher {

/// What a number in a log line says. The spellings are in log_format.h.
enum class Field : std::uint8_t {
  number,  ///< any number, not kept
  step,
  steps,  ///< how many there will be
  rank,
  loss,
  step_time,
  part_time,  ///< the parts of a line add up to its step time
  mean_step_time,
  steps_per_s,
  mean_steps_per_s,
  tokens_per_s,
  tokens_per_s_per_device,
  mean_tokens_per_s,
  samples_per_s,
  mean_samples_per_s,
  allocated,
  allocated_peak,
  allocated_peak_part,  ///< of different patterns, which add up to one peak
  reserved,
  reserved_peak,
  device_used,
  allocation_retries,  ///< of an allocator that ran full and gave up its cache
  oom_requested,
  oom_allocated,
  oom_reserved,
  oom_unallocated,  ///< reserved and not allocated
  oom_free,
  oom_capacity,
  oom_device,
};
constexpr std::size_t kFieldCount = static_cast<std::size_t>(Field::oom_device) + 1;

/// As a log states it. `bare` is a number without one.
enum class LogUnit : std::uint8_t { bare, us, ms, s, bytes, kb, kib, mb, mib, gb, gib, tb, tib };

enum class Quantity : std::uint8_t { whole, plain, seconds, bytes };
Quantity quantity(Field field);

/// Seconds or bytes of one `unit`. With `binary`, KB to TB mean KiB to TiB.
double unit_factor(LogUnit unit, bool binary);
std::string_view unit_word(LogUnit unit);

/// The unit of this quantity at the beginning of `text`, and where it ends; `bare` and 0 if there
/// is none. A longer word, as "steps" for "s", is none.
struct UnitInText {
  LogUnit unit = LogUnit::bare;
  std::size_t length = 0;
};
UnitInText unit_at(std::string_view text, Quantity quantity);

/// A field as a pattern spells it: `unit` is what its name states; `bare` if the text states it.
struct FieldName {
  Field field = Field::number;
  LogUnit unit = LogUnit::bare;
};
std::optional<FieldName> field_of_name(std::string_view name);
/// Every spelling, for messages about wrong ones.
std::vector<std::string> field_names();

}  // namespace planwright::launcher
