#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/doctor_checks.h"
#include "cli/print_table.h"
#include "cli/signals.h"
#include "cli/verbs.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "doctor",
    .summary =
        "What works on this machine, and what to do about the rest. Takes some seconds; with --gpu "
        "the self-test of a GPU, at most three minutes.",
    .arguments = "",
    .example = "planwright doctor",
    .tables = {Table::launch, Table::storage},
    .own = {"gpu"},
};

std::string text(const std::vector<Check>& checks, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const Check& check : checks) {
    rows.push_back({check.name, check.ok ? "ok" : "FAILED", check.detail});
    if (!check.fix.empty()) rows.push_back({"", "", "fix: " + check.fix});
  }
  return table_text({{"check", Align::left}, {"", Align::left}, {"found", Align::left}}, rows,
                    paint);
}

Json document(const std::vector<Check>& checks) {
  Json json{{"schema", "planwright.doctor/1"}, {"checks", Json::array()}};
  for (const Check& check : checks) {
    json["checks"].push_back(
        {{"name", check.name}, {"ok", check.ok}, {"detail", check.detail}, {"fix", check.fix}});
  }
  return json;
}

}  // namespace

int run_doctor(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  on_signal(OnSignal::ask);
  const bool gpu = line.settings.marked(Table::none, "gpu");
  const std::vector<Check> checks =
      gpu ? run_gpu_checks(line.settings, console) : run_checks(line.settings);
  console.print(text(checks, console.result_paint()));
  console.print_json(document(checks));
  const bool well = std::all_of(checks.begin(), checks.end(),
                                [](const Check& check) { return check.ok || !check.needed; });
  return well ? kExitDone : kExitWorldFailed;
}

}  // namespace planwright::cli
