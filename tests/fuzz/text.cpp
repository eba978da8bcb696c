#include "choices.h"
#include "estimator/spec/hf_config.h"
#include "launcher/plan_file.h"
#include "probes/protocol/probe_report.h"

/// Any bytes as a file: they are refused, or a value comes of them that stays the same when it is
/// written and read again.
namespace planwright {

template <class Read>
void stays_the_same(const Json& json, const Read& read) {
  fuzz::refused_or_fine([&] {
    const auto value = read(json, "fuzz");
    fuzz::require(canonical_text(to_json(read(to_json(value), "again"))) ==
                  canonical_text(to_json(value)));
  });
}

}  // namespace planwright

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace planwright;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fuzz::refused_or_fine([&] { model_from_hf_text(text, "fuzz"); });
  Json json;
  try {
    json = parse_json(text, "fuzz");
  } catch (const InputError&) {
    return 0;
  }
  stays_the_same(json, problem_from_json);
  stays_the_same(json, candidate_from_json);
  stays_the_same(json, calibration_from_json);
  stays_the_same(json, trial_from_json);
  stays_the_same(json, probes::rank_report_from_json);
  stays_the_same(json, launcher::plan_file_from_json);
  return 0;
}
