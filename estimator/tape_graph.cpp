#include "estimator/tape_graph.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <utility>

namespace planwright::estimator::tape {
namespace {

using NodePtr = std::shared_ptr<Node>;

/// How many gradients a node waits for.
std::map<Node*, int> dependencies(const NodePtr& root) {
  std::map<Node*, int> waiting{{root.get(), 0}};
  std::vector<Node*> open{root.get()};
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    for (const Var& input : node->inputs) {
      Node* const next = input.maker.get();
      if (next == nullptr) continue;
      if (waiting.try_emplace(next, 0).second) open.push_back(next);
      ++waiting[next];
    }
  }
  return waiting;
}

struct IsEarlier {
  bool operator()(const NodePtr& a, const NodePtr& b) const { return a->number < b->number; }
};

}  // namespace

Storage::Storage(Graph& graph, const Tensor& tensor, bool given) : graph_(graph), tensor_(tensor) {
  if (!given) graph_.script_->make(tensor_);
}

Storage::Storage(std::shared_ptr<Storage> there, std::int64_t bytes)
    : graph_(there->graph_),
      tensor_{there->tensor_.name, bytes, there->tensor_.account},
      of_node_(true),
      there_(std::move(there)) {}

Storage::~Storage() {
  if (copied_) graph_.script_->forget(tensor_);
  if (!of_node_ && !kept_) graph_.script_->drop(tensor_);
}

void Storage::send(bool stays) {
  graph_.script_->send(tensor_);
  copied_ = true;
  if (!stays) there_.reset();
}

void Storage::come() {
  if (!copied_) return;
  copied_ = false;
  if (there_) {
    graph_.script_->forget(tensor_);
    return;
  }
  there_ = std::make_shared<Storage>(graph_, tensor_, false);
  graph_.script_->fetch(tensor_);
}

void Storage::release() {
  if (!std::exchange(kept_, true)) graph_.script_->drop(tensor_);
}

void Storage::restore() {
  if (std::exchange(kept_, false)) graph_.script_->make(tensor_);
}

Var saved(const Var& x) {
  if (x.storage) return x.storage->graph().hold(x);
  return {.elements = x.elements, .type = x.type};
}

bool Graph::is_copied(const std::shared_ptr<Storage>& storage) const {
  return std::any_of(copied_.begin(), copied_.end(),
                     [&](const auto& each) { return each.lock() == storage; });
}

Var Graph::hold(const Var& x) {
  Var kept{.elements = x.elements, .type = x.type, .storage = x.storage};
  const bool leaves = !entered_.empty() && x.elements >= least_elements;
  const bool copied = copies_saved && !is_copied(x.storage);
  if (!gradients || (!leaves && !copied)) return kept;
  kept.storage = std::make_shared<Storage>(x.storage, x.bytes());
  held_.push_back(kept.storage);
  if (leaves) groups_[entered_.back()].push_back(kept.storage);
  if (!copied) return kept;
  copied_.push_back(x.storage);
  kept.storage->send(true);
  return kept;
}

std::optional<std::size_t> Graph::enter(bool wanted, Var& x) {
  if (!wanted || !gradients) return std::nullopt;
  Var same{.elements = x.elements, .type = x.type, .storage = x.storage};
  join({x}, {&same}, [this](std::vector<Var> g) {
    reload();
    return g;
  });
  x = std::move(same);
  entered_.push_back(groups_.size());
  groups_.emplace_back();
  return entered_.back();
}

void Graph::exit(std::optional<std::size_t> group) {
  if (group) entered_.pop_back();
}

void Graph::commit(std::optional<std::size_t> group, const std::vector<Var>& released) {
  if (!group) return;
  for (const auto& each : groups_[*group]) {
    if (const auto held = each.lock()) held->send(false);
  }
  for (const Var& each : released) each.storage->release();
  committed_.push_back(*group);
}

void Graph::reload() {
  if (committed_.empty()) return;
  for (const auto& each : groups_[committed_.back()]) {
    if (const auto held = each.lock()) held->come();
  }
  committed_.pop_back();
}

Var Graph::make(const char* name, std::int64_t elements, DType type, Account account) {
  const Tensor tensor{name, elements * bytes_of(type), account};
  const bool own = account == this->account;
  const bool reused = own && reusing_ > 0;
  const bool kept = own && keeping_ > 0;
  if (reused) --reusing_;
  if (kept) --keeping_;
  Var var{.elements = elements,
          .type = type,
          .storage = std::make_shared<Storage>(*this, tensor, reused)};
  if (kept) keep(var);
  return var;
}

Var Graph::given(const char* name, std::int64_t elements, DType type, bool needs_gradient) {
  const Tensor tensor{name, elements * bytes_of(type)};
  Var var{.elements = elements,
          .type = type,
          .storage = std::make_shared<Storage>(*this, tensor, true),
          .needs_gradient = needs_gradient};
  if (needs_gradient)
    var.maker = std::make_shared<Node>(Node{{}, {elements}, nullptr, next_++, account, {}});
  return var;
}

void Graph::join(const std::vector<Var>& inputs, const std::vector<Var*>& outputs,
                 Backward backward) {
  std::vector<std::shared_ptr<Storage>> held = std::exchange(held_, {});
  bool wanted = false;
  for (const Var& input : inputs) wanted = wanted || input.needs_gradient;
  if (!wanted || !gradients) return;
  auto node = std::make_shared<Node>();
  node->backward = std::move(backward);
  node->number = next_++;
  node->held = std::move(held);
  node->account = account;
  for (const Var& input : inputs) {
    node->inputs.push_back({.elements = input.elements,
                            .type = input.type,
                            .maker = input.maker,
                            .output = input.output,
                            .needs_gradient = input.needs_gradient});
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    node->outputs.push_back(outputs[i]->elements);
    outputs[i]->maker = node;
    outputs[i]->output = static_cast<int>(i);
    outputs[i]->needs_gradient = true;
  }
}

/// What it has saved and the host has.
void Graph::bring(Node& node) {
  for (const auto& each : node.held) each->come();
  node.held.clear();
}

std::vector<Var> Graph::run(const NodePtr& node, std::vector<Var> gradients) {
  account = node->account;
  bring(*node);
  std::vector<Var> parts = node->backward(std::move(gradients));
  node->backward = nullptr;
  return parts;
}

std::vector<Var> Graph::run_first(const NodePtr& node, std::vector<Var> gradients) {
  account = node->account;
  bring(*node);
  std::vector<Var> seen = gradients;
  std::vector<Var> parts = node->backward(std::move(gradients));
  done_.push_back(node);
  if (!postponed_.empty()) {
    left_.push_back({node, std::move(seen), std::exchange(postponed_, {})});
  }
  return parts;
}

/// Nothing leads from the gradients of weights to what came after the last of them.
void Graph::release_behind_weights() {
  std::set<Node*> needed;
  std::vector<Node*> open;
  for (const Left& each : left_) open.push_back(each.node.get());
  while (!open.empty()) {
    Node* const node = open.back();
    open.pop_back();
    if (node == nullptr || !needed.insert(node).second) continue;
    for (const Var& input : node->inputs) open.push_back(input.maker.get());
  }
  for (const NodePtr& node : done_) {
    if (!needed.contains(node.get())) node->backward = nullptr;
  }
}

void Graph::of_weights(std::function<void()> make) {
  if (in_two) return postponed_.push_back(std::move(make));
  make();
}

/// Gradients are summed into others before, and both are there until the next ones' turn. Source:
/// the same file, stage_backward_weight.
void Graph::backward_of_weights() {
  std::vector<Var> seen, sums;
  for (auto each = left_.rbegin(); each != left_.rend(); ++each) {
    account = each->node->account;
    seen = std::move(each->gradients);
    std::vector<Var> summed;
    for (const Var& gradient : seen) {
      if (gradient) summed.push_back(like("sum", gradient));
    }
    sums = std::move(summed);
    for (const auto& make : each->makes) make();
    each->node->backward = nullptr;
  }
  left_.clear();
}

void Graph::release_rest() {
  for (const NodePtr& node : done_) node->backward = nullptr;
  done_.clear();
}

Var Graph::backward(Var root, Var gradient, const Var& leaf) {
  return backward(std::move(root), std::move(gradient), std::vector{leaf}).front();
}

std::vector<Var> Graph::backward(Var root, Var gradient, const std::vector<Var>& leaves) {
  const NodePtr start = std::move(root.maker);
  std::vector<Var> found(leaves.size());
  const int output = root.output;
  root = {};
  if (start == nullptr) return found;
  auto waiting = dependencies(start);
  std::map<Node*, std::vector<Var>> sums;
  std::priority_queue<NodePtr, std::vector<NodePtr>, IsEarlier> ready;
  const auto place = [&](const NodePtr& node, int at, Var part) {
    auto& all = sums[node.get()];
    all.resize(node->outputs.size());
    if (part) accumulate(all[static_cast<std::size_t>(at)], std::move(part));
  };
  place(start, output, std::move(gradient));
  ready.push(start);
  while (!ready.empty()) {
    const NodePtr node = ready.top();
    ready.pop();
    std::vector<Var> given = std::move(sums[node.get()]);
    sums.erase(node.get());
    if (node->backward == nullptr) {
      for (std::size_t i = 0; i < leaves.size() && !given.empty(); ++i) {
        if (leaves[i].maker == node) found[i] = std::move(given.front());
      }
      continue;
    }
    std::vector<Var> parts =
        in_two ? run_first(node, std::move(given)) : run(node, std::move(given));
    for (std::size_t i = 0; i < node->inputs.size(); ++i) {
      const NodePtr& next = node->inputs[i].maker;
      if (next == nullptr) continue;
      Var part = i < parts.size() ? std::move(parts[i]) : Var{};
      place(next, node->inputs[i].output, as_of(node->inputs[i], std::move(part)));
      if (--waiting[next.get()] == 0) ready.push(next);
    }
  }
  return found;
}

Var Graph::detached(const Var& x) {
  Var leaf = saved(x);
  leaf.needs_gradient = true;
  leaf.maker = std::make_shared<Node>(Node{{}, {x.elements}, nullptr, next_++, account, {}});
  return leaf;
}

Var Graph::as_of(const Var& input, Var gradient) {
  if (!gradient || gradient.type == input.type) return gradient;
  return make("to", gradient.elements, input.type);
}

void Graph::accumulate(Var& sum, Var part) {
  if (!sum) {
    sum = std::move(part);
    return;
  }
  if (sums_ == Sums::in_place && sum.storage.use_count() == 1) return;
  sum = make("sum", sum.elements, sum.type);
}

}  // namespace planwright::estimator::tape
