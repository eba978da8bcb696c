#pragma once

#include <toml++/toml.h>

#include <string>

#include "launcher/logs/log_format.h"

namespace planwright::launcher {

/// A person's own format, from a TOML table such as
///
///     [launch.log]
///     lines = ["iter {step} of {steps}: {step_ms} ms", "peak {allocated_peak}"]
///     ignored = ["eval"]
///     decimal_comma = false      # the default of both
///     binary_units = false
///
///     [launch.log.keys]          # what stands before a number, and which figure it is:
///     throughput = "tokens_per_s"        # throughput: 812.5, "throughput"=812.5, 'throughput':
///     '812.5' "mem (GB)" = "reserved_peak_gb"
///
/// The patterns are those of log_format.h. `path` is the file, `name` the table in messages. An
/// InputError names a wrong key, value, field or pattern; a table of no line and no key is one.
LogFormat log_format_of_toml(const toml::table& table, const std::string& path,
                             const std::string& name);

}  // namespace planwright::launcher
