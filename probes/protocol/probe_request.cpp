#include "probes/protocol/probe_request.h"

#include "estimator/spec/json_fields.h"

namespace planwright::json_io {

using probes::BenchmarkJob;
using probes::ProbeRequest;
using probes::TrainJob;

template <>
struct Fields<TrainJob> {
  static constexpr auto kFields = std::tuple{
      Field{"problem", &TrainJob::problem},
      Field{"candidate", &TrainJob::candidate},
      Field{"scope", &TrainJob::scope},
      Field{"bucket_elements", &TrainJob::bucket_elements, kNatural},
      Field{"overlap", &TrainJob::overlap},
      Field{"kernels", &TrainJob::kernels},
      Field{"memory_budget_bytes", &TrainJob::memory_budget},
      Field{"seed", &TrainJob::seed},
      Field{"timeline", &TrainJob::timeline},
      Field{"dump", &TrainJob::dump},
  };
};

template <>
struct Fields<BenchmarkJob> {
  static constexpr auto kFields = std::tuple{
      Field{"device", &BenchmarkJob::device},
      Field{"threads", &BenchmarkJob::threads, kPositive},
  };
};

template <>
struct Fields<ProbeRequest> {
  static constexpr auto kFields = std::tuple{
      Field{"world", &ProbeRequest::world, kPositive},
      Field{"threads", &ProbeRequest::threads, kPositive},
      Field{"device", &ProbeRequest::device},
      Field{"rendezvous", &ProbeRequest::rendezvous},
      Field{"report_prefix", &ProbeRequest::report_prefix},
      Field{"collective_timeout_s", &ProbeRequest::collective_timeout_s},
      Field{"link_bytes_per_s", &ProbeRequest::link_bytes_per_s},
      Field{"kind", &ProbeRequest::kind},
      Field{"train", &ProbeRequest::train},
      Field{"benchmark", &ProbeRequest::benchmark},
  };
};

}  // namespace planwright::json_io

namespace planwright::probes {

Json to_json(const ProbeRequest& request) { return json_io::encode(request, json_io::Form::full); }

ProbeRequest probe_request_from_json(const Json& json, const std::string& source) {
  ProbeRequest request;
  json_io::decode(json, json_io::Place(source), request);
  return request;
}

}  // namespace planwright::probes
