#include "estimator/spec/json_fields.h"

namespace planwright::json_io {
namespace {

constexpr Range kAxis{.min = 1, .max = 1 << 20};

constexpr auto kOffloadTo = [](auto& plan) -> decltype(auto) { return (plan.offload.to); };

}  // namespace

template <>
struct Fields<StagePlan> {
  static constexpr auto kFields = std::tuple{
      Field{"blocks", &StagePlan::blocks, kNatural},
      Field{"recompute", &StagePlan::recompute},
      Field{"offload", &StagePlan::offload},
      Field{"offload_to", kOffloadTo},
  };
};

template <>
struct Fields<Candidate> {
  static constexpr auto kFields = std::tuple{
      Field{"tp", &Candidate::tp, kAxis},
      Field{"pp", &Candidate::pp, kAxis},
      Field{"vpp", &Candidate::vpp, kAxis},
      Field{"cp", &Candidate::cp, kAxis},
      Field{"ep", &Candidate::ep, kAxis},
      Field{"etp", &Candidate::etp, kAxis},
      Field{"dp", &Candidate::dp, kAxis},
      Field{"zero", &Candidate::zero, Range{.min = 0, .max = 3}},
      Field{"hsdp", &Candidate::hsdp, kAxis},
      Field{"sp", &Candidate::sp},
      Field{"micro_batch", &Candidate::micro_batch, kAxis},
      Field{"schedule", &Candidate::schedule},
      Field{"recompute", &Candidate::recompute},
      Field{"offload", &Candidate::offload},
      Field{"offload_to", kOffloadTo},
      Field{"attention", &Candidate::attention},
      Field{"loss", &Candidate::loss},
      Field{"knobs", &Candidate::knobs},
      Field{"stages", &Candidate::stages},
  };
};

template <>
struct Fields<ProbeScope> {
  static constexpr auto kFields = std::tuple{
      Field{"kind", &ProbeScope::kind},
      Field{"warmup", &ProbeScope::warmup, kNatural},
      Field{"steps", &ProbeScope::steps, kPositive},
      Field{"rank", &ProbeScope::rank, kNatural},
  };
};

Json encode(const Recompute& value, Form) { return recompute_text(value); }

void decode(const Json& json, const Place& place, Recompute& into) {
  std::string text;
  decode(json, place, text);
  into = parse_recompute(text, place.source(), place.path());
}

Json encode(const Offload& value, Form) { return offload_text(value); }

/// Leaves `to` as it is: it has a key of its own.
void decode(const Json& json, const Place& place, Offload& into) {
  std::string text;
  decode(json, place, text);
  const OffloadTo to = into.to;
  into = parse_offload(text, place.source(), place.path());
  into.to = to;
}

Json encode(const Candidate& value, Form form) { return encode<Candidate>(value, form); }
Json encode(const ProbeScope& value, Form form) { return encode<ProbeScope>(value, form); }

void decode(const Json& json, const Place& place, Candidate& into) {
  decode<Candidate>(json, place, into);
}
void decode(const Json& json, const Place& place, ProbeScope& into) {
  decode<ProbeScope>(json, place, into);
}

}  // namespace planwright::json_io
