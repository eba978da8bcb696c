#pragma once

#include "cli/setting.h"
#include "estimator/spec/units.h"
#include "estimator/spec/workload.h"

/// Amounts as people write them; an InputError for anything that would have to be guessed.
namespace planwright::cli {

/// `80GB` (10^9 bytes), `80GiB` (2^30 bytes), `512MiB`, `4096B`; more than zero. `80G` is refused
/// with both readings.
Bytes parse_size(const Setting& setting);

/// `5%` of each device's memory, or a size; `0%` keeps nothing free.
Headroom parse_headroom(const Setting& setting);

/// A decimal number from 0 to below 1.
double parse_probability(const Setting& setting);

/// `2h`, `30m`, `45s`, `1h30m`; more than zero.
Seconds parse_duration(const Setting& setting);

/// `900GB/s`: a size per second.
BytesPerSecond parse_rate(const Setting& setting);

}  // namespace planwright::cli
