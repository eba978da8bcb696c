#pragma once

#include <string>

#include "cli/settings.h"
#include "estimator/spec/problem.h"
#include "launcher/user_command.h"
#include "studies/store.h"

namespace planwright::cli {

/// A command as it was given or measured.
struct WholeCommand {
  std::string line;               ///< all that decides what is run: Problem::target_version
  launcher::UserCommand parts{};  ///< without words where nobody kept them
};

/// A plan was measured with one command; of another it says nothing. An InputError that shows both
/// unless they are the same. `study` is the one that measured it; empty: a plan file.
void require_same_command(const Settings& settings, const WholeCommand& given,
                          const WholeCommand& measured, const std::string& study);

/// The same of the study that is named, or, if none is, of the latest one that was made for this
/// very problem but for the command, where there is no study of the problem itself.
void require_command_of_study(studies::Store& store, const Settings& settings,
                              const Problem& problem, const launcher::UserCommand& user);

}  // namespace planwright::cli
