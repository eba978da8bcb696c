#pragma once

#include "launcher/logs/log_format.h"

namespace planwright::targets::hf_trainer {

/// Progress bars, dictionaries of logged values, quoted or not, and the blocks of metrics, of
/// transformers 4 and 5. The averages include what is slow at the beginning. With
/// --skip_memory_metrics False the peak is the sum of four values.
const launcher::LogFormat& log_format();

}  // namespace planwright::targets::hf_trainer
