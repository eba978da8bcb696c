#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/hf_reader.h"
#include "estimator/spec/model_spec.h"

/// What each family of Hugging Face's config.json means. Sources: huggingface/transformers
/// src/transformers/models/<family>/configuration_<family>.py and modeling_<family>.py, version
/// 4.57, and the spellings of 5.0 beside them; for what has its own code in its repository
/// (`auto_map`), the configuration and modelling files there.
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
  std::vector<std::string_view> architectures;  ///< classes with the head that is counted
  std::vector<std::string_view> mapped;         ///< keys that `build` reads
  std::vector<HfFixedKey> fixed;                ///< beside those of every family
  std::vector<std::string_view> ignored;  ///< keys that change neither size nor work; the same
  ModelSpec (*build)(const HfReader&);    ///< without name and family
};

/// Every family that can be read, sorted by model_type.
const std::vector<HfFamily>& hf_family_table();

/// Keys of transformers' PretrainedConfig that mean nothing here in any family.
const std::vector<std::string_view>& hf_ignored_everywhere();
const std::vector<HfFixedKey>& hf_fixed_everywhere();

namespace hf {

// Rows of the table, by what is common to their models.
std::vector<HfFamily> gpt_families();      ///< LayerNorms, plain MLPs
std::vector<HfFamily> rotary_families();   ///< rotary positions, gated MLPs
std::vector<HfFamily> expert_families();   ///< experts in the MLP's place
std::vector<HfFamily> mamba_families();    ///< Mamba mixers, with attention or without
std::vector<HfFamily> wrapped_families();  ///< a text model beside an image tower

}  // namespace hf
}  // namespace planwright
