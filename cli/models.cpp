#include "estimator/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/print_table.h"
#include "cli/setting.h"
#include "cli/verbs.h"
#include "estimator/spec/json.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "models",
    .summary = "The models that are known by name.",
    .arguments = "[TEXT]",
    .example = "planwright models mixtral",
    .most_words = 1,
};

std::string billions(std::int64_t count) {
  return fmt::format("{:.3f}", static_cast<double>(count) / 1e9);
}

/// Of a layer with experts, how many of what width, and how many of them a token uses.
std::string mlp_text(const BlockSpec& block) {
  if (!block.moe) return block.ffn > 0 ? std::to_string(block.ffn) : "-";
  return fmt::format("{}/{} x {}", block.moe->top_k, block.moe->experts, block.moe->ffn);
}

std::string heads_text(const BlockSpec& block) {
  if (block.mamba) return "mamba";
  if (block.latent) return fmt::format("{} latent", block.heads);
  return fmt::format("{}/{}", block.heads, block.kv_heads);
}

/// Blocks differ in some models; the last one is what most are like.
std::vector<std::string> cells(const std::string& name, const ModelSpec& model) {
  const ParameterCounts counts = parameter_counts(model);
  const BlockSpec& block = model.block(model.layers() - 1);
  return {name,
          model.family,
          billions(counts.total),
          counts.active == counts.total ? "" : billions(counts.active),
          std::to_string(model.layers()),
          std::to_string(model.hidden),
          heads_text(block),
          mlp_text(block),
          std::to_string(model.vocab)};
}

Json row(const std::string& name, const ModelSpec& model) {
  const ParameterCounts counts = parameter_counts(model);
  Json json{
      {"name", name},
      {"parameters",
       {{"total", counts.total}, {"trainable", counts.trainable}, {"active", counts.active}}}};
  const ModelOrigin origin = estimator::model_origin(name);
  json["published"] = origin.published;
  json["hf_id"] = origin.hf_id;
  json["source"] = origin.source;
  json["certainty"] = origin.certainty;
  json["model"] = to_json(model);
  return json;
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Names that have the text in them, or whose family has; all without one.
std::vector<std::string> names_with(const std::vector<std::string>& words) {
  if (words.empty()) return estimator::model_presets();
  std::vector<std::string> names;
  for (const std::string& name : estimator::model_presets()) {
    const std::string family = estimator::find_model(name, kCommandLine, "--model").family;
    const bool has =
        lower(fmt::format("{} {}", name, family)).find(lower(words.front())) != std::string::npos;
    if (has) names.push_back(name);
  }
  if (names.empty()) {
    refuse({words.front(), kCommandLine, "TEXT"}, "is in no model's name or family",
           nearest_word(words.front(), estimator::model_presets()));
  }
  return names;
}

}  // namespace

int run_models(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  std::vector<std::vector<std::string>> rows;
  Json json{{"schema", "planwright.models/1"}, {"rows", Json::array()}};
  for (const std::string& name : names_with(line.words)) {
    const ModelSpec model = estimator::find_model(name, kCommandLine, "--model");
    rows.push_back(cells(name, model));
    json["rows"].push_back(row(name, model));
  }
  console.print(table_text({{"model", Align::left},
                            {"family", Align::left},
                            {"10^9 parameters", Align::right},
                            {"active", Align::right},
                            {"layers", Align::right},
                            {"hidden", Align::right},
                            {"heads/kv", Align::right},
                            {"ffn", Align::right},
                            {"vocab", Align::right}},
                           rows, console.result_paint()));
  console.print_json(json);
  return kExitDone;
}

}  // namespace planwright::cli
