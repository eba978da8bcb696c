#include "estimator/spec/json_fields.h"

namespace planwright::json_io {

template <>
struct Fields<OutOfMemory> {
  static constexpr auto kFields = std::tuple{
      Field{"requested_bytes", &OutOfMemory::requested, kNatural},
      Field{"allocated_bytes", &OutOfMemory::allocated, kNatural},
      Field{"capacity_bytes", &OutOfMemory::capacity, kNatural},
      Field{"reserved_bytes", &OutOfMemory::reserved},
      Field{"account", &OutOfMemory::account},
      Field{"phase", &OutOfMemory::phase},
      Field{"rank", &OutOfMemory::rank, kNatural},
  };
};

template <>
struct Fields<HeldBytes> {
  static constexpr auto kFields = std::tuple{
      Field{"parameters", &HeldBytes::parameters},
      Field{"gradients", &HeldBytes::gradients},
      Field{"optimizer", &HeldBytes::optimizer},
      Field{"communication", &HeldBytes::communication},
  };
};

namespace {

Json peak_json(const RankMeasurement& rank, Form form) {
  Json out;
  out["phase"] = word(rank.peak_phase);
  out["allocated_bytes"] = rank.allocated_peak().value;
  out["tensor_phase"] = word(rank.tensors_phase);
  out["tensor_bytes"] = rank.tensor_peak().value;
  out["reserved_bytes"] = encode(rank.reserved_peak, form);
  out["device_bytes"] = encode(rank.device_peak, form);
  out["rss_bytes"] = encode(rank.rss_peak, form);
  return out;
}

void read_peak(const Json& json, const Place& place, RankMeasurement& into) {
  ObjectReader object(json, place);
  object.read("phase", into.peak_phase);
  object.read("tensor_phase", into.tensors_phase);
  object.read("reserved_bytes", into.reserved_peak);
  object.read("device_bytes", into.device_peak);
  object.read("rss_bytes", into.rss_peak);
  object.derived("allocated_bytes", into.allocated_peak().value);
  object.derived("tensor_bytes", into.tensor_peak().value);
  object.finish();
}

/// Null: it is not known.
void read_ledger(ObjectReader& object, const char* key, Ledger& into) {
  const Json* json = object.find(key);
  if (json != nullptr && !json->is_null()) object.read(key, into);
}

Json failure_json(const Failure& failure) {
  Json out;
  out["detail"] = encode(failure.detail, Form::full);
  out["log_tail"] = encode(failure.log_tail, Form::full);
  out["rank"] = encode(failure.rank, Form::full);
  return out;
}

Failure read_failure(const Json& json, const Place& place, OutcomeKind kind) {
  Failure failure;
  failure.kind = kind;
  ObjectReader object(json, place);
  object.read("detail", failure.detail);
  object.read("log_tail", failure.log_tail);
  object.read("rank", failure.rank);
  object.finish();
  return failure;
}

Measurement read_measurement(ObjectReader& object) {
  Measurement out;
  object.read("ranks", out.ranks);
  object.read("steps_s", out.steps_s);
  object.read("step_time_s", out.step_time_s);
  object.read("tokens_per_second_per_device", out.tokens_per_second_per_device);
  object.read("losses", out.losses);
  return out;
}

void refuse_measurement(ObjectReader& object) {
  for (const char* key : {"ranks", "steps_s", "losses"}) object.derived(key, Json::array());
  for (const char* key : {"step_time_s", "tokens_per_second_per_device"}) {
    object.derived(key, Json());
  }
}

}  // namespace

Json encode(const RankMeasurement& value, Form form) {
  const auto accounts = [&](const Ledger& ledger) {
    return value.whole_peak ? Json() : encode_accounts(ledger, value.device_peak.has_value());
  };
  Json out;
  out["rank"] = value.rank;
  out["peak"] = peak_json(value, form);
  out["accounts"] = accounts(value.peak);
  out["tensor_accounts"] = accounts(value.tensors);
  out["loaded"] = accounts(value.loaded);
  out["step_end"] = accounts(value.step_end);
  if (value.whole_peak) out["whole_peak_bytes"] = value.whole_peak->value;
  if (value.held) out["held"] = encode(*value.held, form);
  out["steps_s"] = encode(value.steps_s, form);
  out["time"] = encode(value.time, form);
  out["startup_s"] = encode(value.startup_s, form);
  out["modelled"] = Json::array();
  return out;
}

void decode(const Json& json, const Place& place, RankMeasurement& into) {
  ObjectReader object(json, place);
  object.read("rank", into.rank, kNatural);
  object.read("whole_peak_bytes", into.whole_peak);
  object.read("held", into.held);
  read_ledger(object, "accounts", into.peak);
  read_ledger(object, "tensor_accounts", into.tensors);
  read_ledger(object, "loaded", into.loaded);
  read_ledger(object, "step_end", into.step_end);
  object.read("steps_s", into.steps_s);
  object.read("time", into.time);
  object.read("startup_s", into.startup_s);
  if (const Json* peak = object.find("peak")) read_peak(*peak, object.at("peak"), into);
  object.derived("modelled", Json::array());
  object.finish();
}

Json encode(const OutOfMemory& value, Form form) { return encode<OutOfMemory>(value, form); }
void decode(const Json& json, const Place& place, OutOfMemory& into) {
  decode<OutOfMemory>(json, place, into);
}

Json encode(const Outcome& value, Form form) {
  const Measurement* measured = value.measurement();
  const Measurement none;
  const Measurement& shown = measured != nullptr ? *measured : none;
  const auto figure = [&](double number) {
    return measured != nullptr ? encode(number, form) : Json();
  };
  Json out;
  out["outcome"] = word(value.kind());
  out["ranks"] = encode(shown.ranks, form);
  out["steps_s"] = encode(shown.steps_s, form);
  out["step_time_s"] = figure(shown.step_time_s);
  out["tokens_per_second_per_device"] = figure(shown.tokens_per_second_per_device);
  out["losses"] = encode(shown.losses, form);
  const OutOfMemory* full = value.out_of_memory();
  out["out_of_memory"] = full != nullptr ? encode(*full, form) : Json();
  out["failure"] = value.failure() != nullptr ? failure_json(*value.failure()) : Json();
  out["environment"] = encode(value.environment, form);
  return out;
}

void decode(const Json& json, const Place& place, Outcome& into) {
  ObjectReader object(json, place);
  OutcomeKind kind{};
  decode(object.require("outcome"), object.at("outcome"), kind);
  if (kind == OutcomeKind::ok) {
    into.value = read_measurement(object);
  } else {
    refuse_measurement(object);
  }
  if (kind == OutcomeKind::out_of_memory) {
    decode(object.require("out_of_memory"), object.at("out_of_memory"),
           into.value.emplace<OutOfMemory>());
  } else {
    object.derived("out_of_memory", Json());
  }
  if (kind != OutcomeKind::ok && kind != OutcomeKind::out_of_memory) {
    into.value = read_failure(object.require("failure"), object.at("failure"), kind);
  } else {
    object.derived("failure", Json());
  }
  object.read("environment", into.environment);
  object.finish();
}

Json encode(const Trial& value, Form form) {
  Json out;
  out["number"] = value.number;
  out["problem_hash"] = encode(value.problem_hash, form);
  out["candidate"] = encode(value.candidate, Form::sparse);
  out["scope"] = encode(value.scope, form);
  out["estimate"] = encode(value.estimate, form);
  out["why"] = encode(value.why, form);
  out["outcome"] = encode(value.outcome, form);
  out["started_unix_s"] = encode(value.started_unix_s, form);
  out["finished_unix_s"] = encode(value.finished_unix_s, form);
  return out;
}

void decode(const Json& json, const Place& place, Trial& into) {
  ObjectReader object(json, place);
  object.read("number", into.number, Range{.min = -1});
  object.read("problem_hash", into.problem_hash);
  object.read("candidate", into.candidate);
  object.read("scope", into.scope);
  object.read("estimate", into.estimate);
  object.read("why", into.why);
  object.read("outcome", into.outcome);
  object.read("started_unix_s", into.started_unix_s);
  object.read("finished_unix_s", into.finished_unix_s);
  object.finish();
}

}  // namespace planwright::json_io
