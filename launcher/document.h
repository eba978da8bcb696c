#pragma once

#include <string>

#include "estimator/spec/json.h"

/// Settings as the text of the formats that frameworks read. A document is an object of scalars,
/// lists and objects; keys are ours and need no quotes. The order is the document's, so the text is
/// the same each time.
namespace planwright::launcher {

/// YAML that means the same in 1.1 and 1.2: words such as `no`, and numbers such as 1e-05 that
/// would be read as something else, are written so that they are not.
std::string yaml_text(const Json& document);

/// TOML: the scalars and lists of the first level, then each object as a table.
std::string toml_text(const Json& document);

}  // namespace planwright::launcher
