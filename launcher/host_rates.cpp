#include "launcher/host_rates.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "estimator/spec/error.h"
#include "estimator/spec/json.h"
#include "estimator/spec/sha256.h"
#include "estimator/spec/text_file.h"
#include "launcher/files.h"

namespace planwright::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema = "planwright.rates/1";

std::string cache_folder(const RatesCache& cache) {
  if (!cache.folder.empty()) return cache.folder;
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value != nullptr ? value : "");
  };
  const std::string base = variable("XDG_CACHE_HOME");
  return (base.empty() ? variable("HOME") + "/.cache" : base) + "/planwright";
}

/// All that the rates depend on. A rebuilt worker has another time of change.
Json cache_key(const RatesQuery& query, const std::string& worker) {
  struct stat file {};
  stat(worker.c_str(), &file);  // a missing one fails later, with a message, when it is started
  return {{"world", query.world},
          {"threads", query.threads},
          {"device", word(query.device)},
          {"device_model", query.device_model},
          {"worker", worker},
          {"worker_bytes", static_cast<std::int64_t>(file.st_size)},
          {"worker_changed_s", static_cast<std::int64_t>(file.st_mtim.tv_sec)},
          {"worker_changed_ns", static_cast<std::int64_t>(file.st_mtim.tv_nsec)}};
}

std::string cache_path(const std::string& folder, const Json& key) {
  return folder + "/rates-" + sha256_hex(key.dump()).substr(0, 12) + ".json";
}

/// nullopt for anything but a whole file with this very key.
std::optional<HostRates> read_cached(const std::string& path, const Json& key) {
  if (!fs::exists(path)) return std::nullopt;
  try {
    const Json file = parse_json(read_file(path), path);
    if (file.value("schema", "") != kSchema || file.at("key") != key) return std::nullopt;
    return host_rates_from_json(file.at("rates"), path);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

void write_cached(const std::string& path, const Json& key, const HostRates& rates,
                  const RatesCache& cache) {
  const Json file{{"schema", kSchema}, {"key", key}, {"rates", to_json(rates)}};
  std::string problem;
  try {
    std::error_code error;
    fs::create_directories(fs::path(path).parent_path(), error);
    replace_file(path, file.dump(2) + "\n");
  } catch (const WorldError& error) {
    problem = error.what();
  }
  if (!problem.empty() && cache.warn) {
    cache.warn("the measured rates are not kept for the next run: " + problem);
  }
}

HostRates measure(const RatesQuery& query, const RunOptions& options) {
  probes::ProbeRequest request;
  request.world = query.world;
  request.threads = query.threads;
  request.device = query.device;
  request.kind = probes::JobKind::benchmark;
  request.benchmark = {query.device, query.threads};
  const JobsResult result = run_request(request, options);
  if (result.failure) {
    const Failure* const failure = result.failure->failure();
    const std::string detail = failure != nullptr ? failure->detail : "out of memory";
    throw WorldError(fmt::format("the micro-benchmark of this machine failed ({}): {}",
                                 word(result.failure->kind()), detail));
  }
  for (const probes::RankReport& report : result.reports) {
    if (report.rates) return *report.rates;
  }
  throw WorldError("the micro-benchmark of this machine reported no rates");
}

}  // namespace

std::optional<HostRates> known_host_rates(const RatesQuery& query, const RunOptions& options,
                                          const RatesCache& cache) {
  const Json key = cache_key(query, worker_path(options, query.device));
  return read_cached(cache_path(cache_folder(cache), key), key);
}

HostRates host_rates(const RatesQuery& query, const RunOptions& options, const RatesCache& cache) {
  const Json key = cache_key(query, worker_path(options, query.device));
  const std::string path = cache_path(cache_folder(cache), key);
  if (!cache.refresh) {
    if (const auto rates = read_cached(path, key)) return *rates;
  }
  const HostRates rates = measure(query, options);
  write_cached(path, key, rates, cache);
  return rates;
}

}  // namespace planwright::launcher
