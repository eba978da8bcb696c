#pragma once

#include "launcher/target.h"

namespace planwright::targets::nanotron {

/// Hugging Face's nanotron with its Llama.
const TargetTraits& traits();

launcher::Target target();

}  // namespace planwright::targets::nanotron
