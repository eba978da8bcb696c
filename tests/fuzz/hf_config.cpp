#include "estimator/spec/hf_config.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "choices.h"

/// Real config.json files with a few values changed: refused, or a model that can be written, read
/// again and counted.
namespace planwright {

std::vector<Json> read_configs() {
  std::vector<Json> configs;
  for (const auto& entry :
       std::filesystem::directory_iterator(PLANWRIGHT_SOURCE_DIR "/estimator/data/models")) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    configs.push_back(Json::parse(file));
  }
  return configs;
}

}  // namespace planwright

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace planwright;
  static const std::vector<Json> kConfigs = read_configs();
  fuzz::Choices choices(data, size);
  const Json config = fuzz::changed(kConfigs[choices.below(kConfigs.size())], choices);
  fuzz::refused_or_fine([&] {
    const ModelSpec model = model_from_hf_config(config, "fuzz");
    fuzz::require(model_spec_from_json(to_json(model), "again") == model);
    fuzz::require(parameter_counts(model).total > 0);
  });
  return 0;
}
