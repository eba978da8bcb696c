#include "estimator/tape_recompute.h"

#include <utility>

namespace planwright::estimator::tape {
namespace {

std::vector<Var> without_gradients(Graph& graph, const Module& module,
                                   const std::vector<Var>& inputs) {
  const bool wanted = std::exchange(graph.gradients, false);
  std::vector<Var> outputs = module(inputs);
  graph.gradients = wanted;
  return outputs;
}

std::vector<Var> all_saved(const std::vector<Var>& vars) {
  std::vector<Var> kept;
  for (const Var& each : vars) kept.push_back(saved(each));
  return kept;
}

std::vector<Var> all_detached(Graph& graph, const std::vector<Var>& vars) {
  std::vector<Var> leaves;
  for (const Var& each : vars) leaves.push_back(graph.detached(each));
  return leaves;
}

void join_all(Graph& graph, const std::vector<Var>& inputs, std::vector<Var>& outputs,
              Backward backward) {
  std::vector<Var*> made;
  for (Var& each : outputs) made.push_back(&each);
  graph.join(inputs, made, std::move(backward));
}

/// Of several outputs at once.
std::vector<Var> backward_of(Graph& graph, std::vector<Var> outputs, std::vector<Var> gradients,
                             const std::vector<Var>& leaves) {
  Var all{.elements = 1};
  graph.join(outputs, {&all}, [given = std::move(gradients)](const std::vector<Var>&) mutable {
    return std::move(given);
  });
  outputs.clear();
  return graph.backward(std::move(all), {}, leaves);
}

}  // namespace

std::vector<Var> checkpointed(Graph& graph, bool wanted, const std::vector<Var>& inputs,
                              Module module) {
  if (!wanted) return module(inputs);
  std::vector<Var> outputs = without_gradients(graph, module, inputs);
  join_all(graph, inputs, outputs,
           [&graph, kept = all_saved(inputs), module = std::move(module)](std::vector<Var> g) {
             const std::vector<Var> leaves = all_detached(graph, kept);
             return backward_of(graph, module(leaves), std::move(g), leaves);
           });
  return outputs;
}

Var checkpointed(Graph& graph, bool wanted, const Var& x,
                 const std::function<Var(const Var& x)>& module) {
  const auto of_all = [module](const std::vector<Var>& in) { return std::vector{module(in[0])}; };
  return checkpointed(graph, wanted, std::vector{x}, of_all).front();
}

WithoutOutput::WithoutOutput(Graph& graph, bool wanted, const std::vector<Var>& inputs,
                             Module module)
    : graph_(graph), wanted_(wanted), module_(std::move(module)) {
  if (!wanted) {
    outputs_ = module_(inputs);
    return;
  }
  outputs_ = without_gradients(graph, module_, inputs);
  inputs_ = all_saved(inputs);
  again_ = std::make_shared<Again>();
  join_all(graph, inputs, outputs_, [&graph, again = again_](std::vector<Var> g) {
    return backward_of(graph, std::exchange(again->outputs, {}), std::move(g), again->leaves);
  });
}

void WithoutOutput::discard(Var& after) {
  if (!wanted_) return;
  std::vector<std::shared_ptr<Storage>> storages;
  for (Var& each : outputs_) storages.push_back(std::move(each.storage));
  outputs_.clear();
  for (const auto& each : storages) each->release();
  graph_.join({after}, {&after},
              [&graph = graph_, again = again_, kept = std::move(inputs_),
               module = std::move(module_), storages = std::move(storages)](std::vector<Var> g) {
                again->leaves = all_detached(graph, kept);
                again->outputs = module(again->leaves);
                for (const auto& each : storages) each->restore();
                return g;
              });
}

}  // namespace planwright::estimator::tape
