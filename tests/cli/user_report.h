#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "command.h"
#include "tests/support/test_folder.h"

/// Reports of users whose planner or framework gave them a wrong figure, with the right one: where
/// each was reported stands beside its test (UR: the number in the list they were taken from).
namespace planwright::testing {

constexpr double kGiB = 1073741824.0;

/// What `estimate` says of a plan.
class Told {
 public:
  Told(Json json, std::string err) : json_(std::move(json)), err_(std::move(err)) {}

  std::string verdict() const { return json_.is_object() ? json_["verdict"] : Json("none"); }
  std::string reason() const { return json_.is_object() ? json_["reason"] : Json(err_); }
  double parameters() const { return json_["parameters"]["total"]; }
  double account(const std::string& name, std::size_t stage = 0) const {
    return json_["stages"][stage]["accounts"][name];
  }
  double states() const {
    return account("parameters") + account("gradients") + account("optimizer");
  }
  double allocated() const { return json_["peak"]["allocated_bytes"]; }
  double device() const { return json_["peak"]["device_bytes"]; }
  double host() const { return json_["host_bytes"]; }
  const Json& json() const { return json_; }

 private:
  Json json_;
  std::string err_;
};

class UserReport : public ::testing::Test {
 protected:
  Told estimate(const std::string& line) {
    const CommandResult result = run_command({folder_.path()}, words("estimate --json " + line));
    const auto documents = json_lines(result.out);
    return {documents.empty() ? Json() : documents.front(), result.err};
  }

  /// A Llama-like model of these sizes, in a folder of that name.
  void put_model(const std::string& name, const std::map<std::string, std::int64_t>& sizes) {
    Json config{{"architectures", {"LlamaForCausalLM"}},
                {"model_type", "llama"},
                {"hidden_size", 4096},
                {"num_hidden_layers", 32},
                {"num_attention_heads", 32},
                {"intermediate_size", 11008},
                {"vocab_size", 32000},
                {"max_position_embeddings", 4096},
                {"rms_norm_eps", 1e-6},
                {"hidden_act", "silu"},
                {"tie_word_embeddings", false}};
    for (const auto& [key, size] : sizes) config[key] = size;
    folder_.put(name + "/config.json", config.dump());
  }

  const TestFolder folder_;
};

}  // namespace planwright::testing
