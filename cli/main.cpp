#include <fmt/core.h>

#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "cli/signals.h"
#include "cli/verbs.h"
#include "cli/version.h"
#include "estimator/spec/error.h"
#include "estimator/spec/words.h"
#include "launcher/probe_runner.h"

namespace planwright::cli {
namespace {

struct Entry {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments&);
};

constexpr Entry kEntries[] = {
    {"estimate", "what one candidate needs in memory and time", run_estimate},
    {"plan", "every candidate that fits, fastest first", run_plan},
    {"probe", "measure one candidate on the devices", run_probe},
    {"tune", "find the fastest candidate that really fits, by probing", run_tune},
    {"emit", "the launch configuration of a plan", run_emit},
    {"history", "what was measured before", run_history},
    {"score", "how far predictions are from published measurements", run_score},
    {"devices", "the accelerators that are known", run_devices},
    {"models", "the models that are known", run_models},
    {"doctor", "what works on this machine", run_doctor},
};

int print_overview() {
  fmt::print("planwright finds the fastest training configuration that fits the devices.\n\n");
  for (const Entry& entry : kEntries)
    fmt::print("  planwright {:<9} {}\n", entry.name, entry.summary);
  fmt::print(
      "\nEach has --help, with an example that works (`planwright help VERB` is the same). "
      "`planwright --version` says what this is.\n");
  return kExitDone;
}

[[noreturn]] void refuse_verb(const std::string& word) {
  std::vector<std::string> names;
  for (const Entry& entry : kEntries) names.emplace_back(entry.name);
  throw InputError({"command line", "", word, "is not one of the verbs " + join_words(names),
                    nearest_word(word, names)});
}

const Entry& entry_of(const std::string& word) {
  for (const Entry& entry : kEntries) {
    if (entry.name == word) return entry;
  }
  refuse_verb(word);
}

/// `help VERB` is `VERB --help`.
int help(const Arguments& words) {
  if (words.empty()) return print_overview();
  if (words.size() > 1) {
    throw InputError(
        {"command line", words[1], "", "is one argument too many: planwright help VERB", ""});
  }
  return entry_of(words.front()).run({"--help"});
}

int run(const Arguments& words) {
  if (words.empty()) {
    print_overview();
    return kExitWrongInput;
  }
  const std::string& first = words.front();
  const Arguments rest(words.begin() + 1, words.end());
  if (first == "--help" || first == "-h" || first == "help") return help(rest);
  if (first == "--version") {
    fmt::print("{}", version_text());
    return kExitDone;
  }
  return entry_of(first).run(rest);
}

/// A result that could not be written is a failure of the world, whatever the verb returned.
int flushed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  throw WorldError("stdout cannot be written");
}

/// stderr may be closed, full or a broken pipe: there is nobody left to tell then.
void complain(std::string_view text) {
  const std::string line = fmt::format("planwright: {}\n", text);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace
}  // namespace planwright::cli

int main(int argc, char** argv) {
  using namespace planwright;
  cli::on_signal(cli::OnSignal::leave);
  try {
    return cli::flushed(cli::run({argv + 1, argv + argc}));
  } catch (const InputError& error) {
    cli::complain(error.what());
    return cli::kExitWrongInput;
  } catch (const launcher::Interrupted&) {
    cli::complain("interrupted");
    return cli::kExitInterrupted;
  } catch (const std::bad_alloc&) {
    cli::complain(
        "there is not enough memory for this; a search needs some 10 kB for each candidate, "
        "of which lists such as --tp 1,2 leave fewer");
    return cli::kExitWorldFailed;
  } catch (const std::exception& error) {
    cli::complain(error.what());
    return cli::kExitWorldFailed;
  }
}
