#include "estimator/spec/json_fields.h"

namespace planwright::json_io {

template <>
struct Fields<ParameterCounts> {
  static constexpr auto kFields = std::tuple{
      Field{"total", &ParameterCounts::total, kNatural},
      Field{"trainable", &ParameterCounts::trainable, kNatural},
      Field{"active", &ParameterCounts::active, kNatural},
  };
};

template <>
struct Fields<ServingEstimate> {
  static constexpr auto kFields = std::tuple{
      Field{"weights_bytes", &ServingEstimate::weights},
      Field{"weight_format", &ServingEstimate::weight_format},
      Field{"cache_bytes_per_token", &ServingEstimate::cache_per_token},
      Field{"cache_bytes_per_sequence", &ServingEstimate::cache_per_sequence},
      Field{"prefill_bytes", &ServingEstimate::prefill},
      Field{"decode_bytes", &ServingEstimate::decode},
      Field{"sequences", &ServingEstimate::sequences, kNatural},
      Field{"most_sequences", &ServingEstimate::most_sequences, kNatural},
      Field{"longest_context", &ServingEstimate::longest_context, kNatural},
  };
};

template <>
struct Fields<TimeSplit> {
  static constexpr auto kFields = std::tuple{
      Field{"compute_s", &TimeSplit::compute},
      Field{"recompute_s", &TimeSplit::recompute},
      Field{"communication_s", &TimeSplit::communication},
      Field{"bubble_s", &TimeSplit::bubble},
      Field{"optimizer_s", &TimeSplit::optimizer},
      Field{"offload_s", &TimeSplit::offload},
  };
};

Json encode(const Ledger& value, Form) { return encode_accounts(value, true); }

Json encode_accounts(const Ledger& ledger, bool outside) {
  Json out = Json::object();
  for (std::size_t i = 0; i < kWordCount<Account>; ++i) {
    const auto account = static_cast<Account>(i);
    const bool inside = account != Account::context && account != Account::fragmentation;
    const Bytes bytes = ledger[account];
    const bool known = inside || outside || bytes != Bytes{};
    out[std::string(word(account))] = known ? Json(bytes.value) : Json();
  }
  return out;
}

void decode(const Json& json, const Place& place, Ledger& into) {
  ObjectReader object(json, place);
  for (std::size_t i = 0; i < kWordCount<Account>; ++i) {
    const auto account = static_cast<Account>(i);
    std::optional<Bytes> bytes;
    object.read(word(account), bytes);
    into[account] = bytes.value_or(Bytes{});
  }
  object.finish();
}

Json encode(const StageEstimate& stage, Form form) {
  Json out;
  out["stage"] = stage.stage;
  out["phase"] = word(stage.phase);
  out["allocated_bytes"] = stage.accounts.allocated().value;
  out["tensor_bytes"] = stage.tensor_peak.value;
  out["reserved_bytes"] = encode(stage.reserved, form);
  out["device_bytes"] = encode(stage.device_used, form);
  out["accounts"] = encode_accounts(stage.accounts, stage.device_used.has_value());
  return out;
}

void decode(const Json& json, const Place& place, StageEstimate& into) {
  ObjectReader object(json, place);
  object.read("stage", into.stage, kNatural);
  object.read("phase", into.phase);
  object.read("tensor_bytes", into.tensor_peak);
  object.read("reserved_bytes", into.reserved);
  object.read("device_bytes", into.device_used);
  object.read("accounts", into.accounts);
  object.derived("allocated_bytes", into.accounts.allocated().value);
  object.finish();
}

namespace {

/// The worst stage's figures once more, where scripts look for them; null without any stage.
Json peak_json(const Estimate& estimate) {
  const auto index = static_cast<std::size_t>(estimate.peak_stage);
  Json stage;
  if (index < estimate.stages.size()) stage = encode(estimate.stages[index], Form::full);
  Json out;
  out["rank"] = estimate.peak_rank;
  out["stage"] = estimate.peak_stage;
  for (const char* key : {"phase", "allocated_bytes", "reserved_bytes", "device_bytes"}) {
    out[key] = stage.is_null() ? Json() : stage[key];
  }
  return out;
}

void read_peak(const Json& json, const Place& place, Estimate& into) {
  ObjectReader object(json, place);
  object.read("rank", into.peak_rank, kNatural);
  object.read("stage", into.peak_stage, kNatural);
  const Json expected = peak_json(into);
  for (const char* key : {"phase", "allocated_bytes", "reserved_bytes", "device_bytes"}) {
    object.derived(key, expected[key]);
  }
  object.finish();
}

void read_uncertainty(const Json& json, const Place& place, Estimate& into) {
  ObjectReader object(json, place);
  object.read("memory_rel", into.memory_rel);
  object.read("time_rel", into.time_rel);
  object.finish();
}

/// Null for a candidate that is invalid: it has no times, and 0 would be one.
template <class T>
Json encode_time(const Estimate& estimate, const T& value, Form form) {
  return estimate.verdict == Verdict::invalid ? Json() : encode(value, form);
}

template <class T>
void read_time(ObjectReader& object, std::string_view key, const Estimate& estimate, T& into) {
  const Json* json = object.find(key);
  if (json == nullptr || (json->is_null() && estimate.verdict == Verdict::invalid)) return;
  object.read(key, into);
}

}  // namespace

Json encode(const TimeSplit& value, Form form) { return encode<TimeSplit>(value, form); }
void decode(const Json& json, const Place& place, TimeSplit& into) {
  decode<TimeSplit>(json, place, into);
}

Json encode(const Estimate& value, Form form) {
  Json out;
  out["verdict"] = word(value.verdict);
  out["reason"] = encode(value.reason, form);
  out["parameters"] = encode(value.parameters, form);
  out["peak"] = peak_json(value);
  out["stages"] = encode(value.stages, form);
  const bool outside = !value.stages.empty() && value.stages[0].device_used.has_value();
  out["loaded"] = encode_accounts(value.loaded, outside);
  out["host_bytes"] = value.host_bytes.value;
  out["wall"] = word(value.wall);
  out["step_time_s"] = encode_time(value, value.step_time, form);
  out["time"] = encode_time(value, value.time, form);
  out["tokens_per_second_per_device"] =
      encode_time(value, value.tokens_per_second_per_device, form);
  out["mfu"] = encode(value.mfu, form);
  out["uncertainty"] = {{"memory_rel", encode(value.memory_rel, form)},
                        {"time_rel", encode(value.time_rel, form)}};
  out["fit_probability"] = encode(value.fit_probability, form);
  out["calibration"] = encode(value.calibration, form);
  if (value.serving) out["serving"] = encode(*value.serving, form);
  return out;
}

void decode(const Json& json, const Place& place, Estimate& into) {
  ObjectReader object(json, place);
  object.read("verdict", into.verdict);
  object.read("reason", into.reason);
  object.read("parameters", into.parameters);
  object.read("stages", into.stages);
  if (const Json* peak = object.find("peak")) read_peak(*peak, object.at("peak"), into);
  object.read("loaded", into.loaded);
  object.read("host_bytes", into.host_bytes);
  object.read("wall", into.wall);
  read_time(object, "step_time_s", into, into.step_time);
  read_time(object, "time", into, into.time);
  read_time(object, "tokens_per_second_per_device", into, into.tokens_per_second_per_device);
  object.read("mfu", into.mfu);
  if (const Json* spread = object.find("uncertainty")) {
    read_uncertainty(*spread, object.at("uncertainty"), into);
  }
  object.read("fit_probability", into.fit_probability);
  object.read("calibration", into.calibration);
  object.read("serving", into.serving);
  object.finish();
}

}  // namespace planwright::json_io
