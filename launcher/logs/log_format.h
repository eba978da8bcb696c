#pragma once

#include <string>
#include <vector>

namespace planwright::launcher {

/// How a program writes its figures into its log, as data. A pattern is a piece of a line:
///
///     elapsed time per iteration (ms): {step_ms}
///     step: {step} loss: {loss} {*}memory: {reserved_peak}({*}) tps: {tokens_per_s_per_device}
///     {tokens_per_s} tokens/s
///     train_steps_per_second{=}{mean_steps_per_s}
///
/// Its text stands in the line as it is, except that a blank that does not part two words stands
/// for any number of blanks, none included. It may stand anywhere in the line, but its text neither
/// begins nor ends inside a word: "loss" is not found in "eval_loss". A pattern that begins with a
/// figure is not found where : or = follows it. In braces:
///
///     {*}        anything; the text behind it is looked for
///     {=}        what stands between a key and its value: : or = with blanks and quotes about it
///     {^}        the beginning of the line, behind the rank that a launcher puts there
///     {number}   a number that is of no use
///     {{ and }}  braces
///
/// and the figures (number.h says how numbers are written):
///
///     {step} {steps}                  the number of this step; how many there will be
///     {rank}                          of the line, if no rank stands before it
///     {loss}
///     {step_s} {step_ms} {step_us}    how long this step took; {step_time} reads the unit behind
///                                     the number, and takes seconds if there is none
///     {part_s} and so on              the same of a part; the parts in a line add up to its step
///     {mean_step_s} and so on         over the run, with what is slow at its beginning
///     {steps_per_s} {mean_steps_per_s}
///     {tokens_per_s} {tokens_per_s_per_device} {mean_tokens_per_s}
///     {samples_per_s} {mean_samples_per_s}
///     {allocated} {allocated_peak}    what torch's allocator holds, now and at most; with the unit
///     {reserved} {reserved_peak}      that stands behind the number, or as {reserved_peak_gib}
///     with {device_used}                   the one stated here: bytes kb kib mb mib gb gib tb tib
///     {allocated_peak_part}           of several patterns, which add up to one peak
///     {allocation_retries}            how often torch's allocator ran full and emptied its cache
///     {oom_requested} and others      see failure_signs.h
///
/// Every pattern is tried on every line. Where two of them give the same figure of one line the
/// earlier one holds. A line in which one of `ignored` is found gives no figure.
struct LogFormat {
  std::string name;
  std::vector<std::string> lines;
  std::vector<std::string> ignored{};
  bool decimal_comma = false;  ///< "1,234" is little more than one
  bool binary_units = false;   ///< KB, MB, GB, TB mean KiB, MiB, GiB, TiB
  bool operator==(const LogFormat&) const = default;
};

}  // namespace planwright::launcher
