#include "estimator/embedded.h"

#include <stdexcept>
#include <string>

namespace planwright::estimator {

std::string_view embedded_text(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == path) return file.text;
  }
  throw std::logic_error("no embedded file " + std::string(path));
}

}  // namespace planwright::estimator
