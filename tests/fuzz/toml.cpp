#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "choices.h"
#include "cli/cluster_file.h"
#include "cli/keys.h"
#include "cli/problem_input.h"
#include "cli/settings.h"

/// TOML files of settings and of clusters, of any bytes or of known keys with values that fit more
/// or less: refused, or a problem that can be written and read again.
namespace planwright::cli {

constexpr const char* kValues[] = {"1",
                                   "2",
                                   "8",
                                   "0",
                                   "-1",
                                   "64",
                                   "4096",
                                   "9223372036854775807",
                                   "0x7f",
                                   "1e999",
                                   "nan",
                                   "-inf",
                                   "0.5",
                                   "3.0",
                                   "true",
                                   "false",
                                   "[1, 2]",
                                   "[]",
                                   "[[1]]",
                                   "{a = \"b\"}",
                                   "{}",
                                   "1979-05-27",
                                   "07:32:00",
                                   "\"\"",
                                   "\"auto\"",
                                   "\"cpu\"",
                                   "\"on\"",
                                   "\"off\"",
                                   "\"none\"",
                                   "\"bf16\"",
                                   "\"fp8\"",
                                   "\"nf4\"",
                                   "\"gpt2\"",
                                   "\"llama-2-7b\"",
                                   "\"deepseek-v3\"",
                                   "\"H100-SXM5-80GB\"",
                                   "\"A100\"",
                                   "\"EPYC 9654\"",
                                   "\"p5.48xlarge\"",
                                   "\"inference\"",
                                   "\"lora\"",
                                   "\"pretrain\"",
                                   "\"builtin\"",
                                   "\"adamw\"",
                                   "\"80GB\"",
                                   "\"80GiB\"",
                                   "\"1e30GiB\"",
                                   "\"5%\"",
                                   "\"100%\"",
                                   "\"450GB/s\"",
                                   "\"1h30m\"",
                                   "\"block:1\"",
                                   "\"selective:mlp\"",
                                   "\"full\"",
                                   "\"flash\"",
                                   "\"1f1b\"",
                                   "\"shadow\"",
                                   "\"q_proj,v_proj\"",
                                   "\"/\"",
                                   "\".\"",
                                   "\"\\u0000\""};

/// Text that stands in quotes as it is.
std::string quoted(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~' || c == '"' || c == '\\'; },
      '?');
  return fmt::format("\"{}\"", text);
}

std::string toml_value(fuzz::Choices& choices) {
  const std::size_t chosen = choices.below(std::size(kValues) + 4);
  return chosen < std::size(kValues) ? kValues[chosen] : quoted(choices.text(12));
}

/// Every key at most once, or TOML itself would refuse it.
std::string settings_text(fuzz::Choices& choices) {
  std::string text;
  for (std::size_t table = 0; table < std::size(kTableNames); ++table) {
    text += fmt::format("[{}]\n", kTableNames[table]);
    for (const Key& key : all_keys()) {
      const bool usual = key.name == "model" || key.name == "seq" || key.name == "global-batch";
      const bool here = belongs(key, static_cast<Table>(table));
      const std::uint8_t choice = choices.byte();
      if (here && usual && choice < 200) {
        text += fmt::format("{} = {}\n", toml_spelling(key.name),
                            key.name == "model" ? "\"gpt2\"" : "64");
      } else if (here ? choice % 8 == 0 && choice > 0 : choice == 255) {
        text += fmt::format("{} = {}\n", toml_spelling(key.name), toml_value(choices));
      }
    }
  }
  return text;
}

std::string cluster_text(fuzz::Choices& choices) {
  std::string text;
  for (const char* key : {"host_memory", "pcie", "price_per_device_hour", "links"}) {
    if (choices.byte() % 2 == 1) text += fmt::format("{} = {}\n", key, toml_value(choices));
  }
  for (int link = 0; link < 3 && choices.byte() % 2 == 1; ++link) {
    text += "[[link]]\n";
    for (const char* key : {"name", "bandwidth", "latency_us", "span", "width"}) {
      if (choices.byte() % 8 != 1) text += fmt::format("{} = {}\n", key, toml_value(choices));
    }
  }
  return text;
}

void stays_the_same(const Problem& problem) {
  const Problem again = problem_from_json(to_json(problem), "again");
  fuzz::require(canonical_text(to_json(again)) == canonical_text(to_json(problem)));
}

void read_settings(const std::string& text) {
  fuzz::refused_or_fine([&] {
    const Settings settings = settings_of_toml(text, "fuzz.toml");
    fuzz::refused_or_fine([&] { stays_the_same(read_one_candidate(settings).input.problem); });
    stays_the_same(read_many_candidates(settings).input.problem);
  });
}

void read_cluster_text(const std::string& text) {
  fuzz::refused_or_fine([&] {
    ClusterSpec cluster;
    cluster.per_node = 8;
    apply_cluster_toml(text, "fuzz.toml", cluster);
    fuzz::require(cluster.links.empty() || cluster.links.back().span >= cluster.devices());
  });
}

}  // namespace planwright::cli

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace planwright;
  fuzz::Choices choices(data, size);
  switch (choices.byte() % 4) {
    case 0: {
      const std::string text(reinterpret_cast<const char*>(data), size);
      cli::read_settings(text);
      cli::read_cluster_text(text);
      break;
    }
    case 1:
      cli::read_cluster_text(cli::cluster_text(choices));
      break;
    default:
      cli::read_settings(cli::settings_text(choices));
  }
  return 0;
}
