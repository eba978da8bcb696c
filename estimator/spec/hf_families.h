#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/hf_reader.h"
#include "estimator/spec/model_spec.h"

namespace planwright {

/// A key that changes size or work, and the one value (as JSON; null and absent always pass) under
/// which the family is what `build` describes.
struct HfFixedKey {
  std::string_view key;
  std::string_view only;
  std::string_view why;
};

/// One model_type of Hugging Face: every key its config.json may have, and what they mean.
struct HfFamily {
  std::string_view model_type;
  std::string_view architecture;          ///< the class with a language-model head
  std::vector<std::string_view> mapped;   ///< keys that `build` reads
  std::vector<HfFixedKey> fixed;          ///< beside those of every family
  std::vector<std::string_view> ignored;  ///< keys that change neither size nor work; the same
  ModelSpec (*build)(const HfReader&);    ///< without name and family
};

/// Every family that can be read, sorted by model_type.
const std::vector<HfFamily>& hf_family_table();

/// Keys of transformers' PretrainedConfig that mean nothing here in any family.
const std::vector<std::string_view>& hf_ignored_everywhere();
const std::vector<HfFixedKey>& hf_fixed_everywhere();

}  // namespace planwright
