#pragma once

#include <string_view>
#include <vector>

namespace planwright::estimator {

/// A file of estimator/data, compiled in by cmake/EmbedData.cmake.
struct EmbeddedFile {
  std::string_view path;  ///< below estimator/data: "gpus.csv", "models/gpt2.json"
  std::string_view text;
};

/// All of them, sorted by path. Defined in the generated source.
const std::vector<EmbeddedFile>& embedded_files();

/// The text of one; a std::logic_error if it was not embedded.
std::string_view embedded_text(std::string_view path);

}  // namespace planwright::estimator
