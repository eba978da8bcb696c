#include "estimator/models.h"

#include <fmt/core.h>

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
    .arguments = "",
    .example = "planwright models",
};

std::vector<std::string> cells(const std::string& name, const ModelSpec& model) {
  const BlockSpec& block = model.block(0);
  return {name,
          model.family,
          fmt::format("{:.3f}", static_cast<double>(parameter_counts(model).total) / 1e9),
          std::to_string(model.layers()),
          std::to_string(model.hidden),
          fmt::format("{}/{}", block.heads, block.kv_heads),
          std::to_string(block.ffn),
          std::to_string(model.vocab)};
}

Json row(const std::string& name, const ModelSpec& model) {
  const ParameterCounts counts = parameter_counts(model);
  Json json{
      {"name", name},
      {"parameters",
       {{"total", counts.total}, {"trainable", counts.trainable}, {"active", counts.active}}}};
  json["model"] = to_json(model);
  return json;
}

}  // namespace

int run_models(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  std::vector<std::vector<std::string>> rows;
  Json json{{"schema", "planwright.models/1"}, {"rows", Json::array()}};
  for (const std::string& name : estimator::model_presets()) {
    const ModelSpec model = estimator::find_model(name, kCommandLine, "--model");
    rows.push_back(cells(name, model));
    json["rows"].push_back(row(name, model));
  }
  console.print(table_text({{"model", Align::left},
                            {"family", Align::left},
                            {"10^9 parameters", Align::right},
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
