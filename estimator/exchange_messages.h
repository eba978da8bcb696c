#pragma once

#include "estimator/messages.h"
#include "estimator/parties.h"

/// What ranks send each other that have parts of the sequences, or some of the experts each.
namespace planwright::estimator {

void add_context_messages(StageQuantities& stage, const MessageContext& context,
                          const Collector& collect);
void add_expert_messages(StageQuantities& stage, const MessageContext& context,
                         const Collector& collect);

}  // namespace planwright::estimator
