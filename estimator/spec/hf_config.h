#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/spec/json.h"
#include "estimator/spec/model_spec.h"

namespace planwright {

/// Reads a Hugging Face `config.json`, or the folder that holds one. Each family lists the keys it
/// maps and those it may ignore; a leading `_` is ignored; any other key, a missing or
/// contradictory one and an unsupported architecture are InputErrors that name it. Counts are
/// exact.
ModelSpec read_hf_config(const std::string& path);

/// The same from parsed text; `source` stands in messages.
ModelSpec model_from_hf_config(const Json& config, const std::string& source);
/// The same from text that is not parsed yet.
ModelSpec model_from_hf_text(const std::string& text, const std::string& source);

/// What a file of the project's own collection says beside the published keys, under keys that
/// begin with an underscore: its name on Hugging Face, where this copy was taken from, how sure it
/// is; empty where it says nothing. `published` are the parameter counts that its makers or others
/// give, several where they count different parts.
struct ModelOrigin {
  std::string hf_id, source, certainty;
  std::vector<std::int64_t> published;
};

/// An InputError where the counts are not there.
ModelOrigin origin_of_hf_text(const std::string& text, const std::string& source);

/// model_type of every family that can be read, sorted.
std::vector<std::string> hf_families();

}  // namespace planwright
