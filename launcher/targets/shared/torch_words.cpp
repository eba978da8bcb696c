#include "launcher/targets/shared/torch_words.h"

#include <array>

namespace planwright::targets {

std::string torch_name(DType type) {
  constexpr std::array<const char*, 5> kNames{"float64", "float32", "bfloat16", "float16",
                                              "float8_e4m3fn"};
  return kNames[static_cast<std::size_t>(type)];
}

}  // namespace planwright::targets
