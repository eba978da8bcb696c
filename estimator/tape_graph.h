#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "estimator/liveness.h"
#include "estimator/spec/workload.h"

/// A framework's forward on sizes instead of numbers, and the backward that autograd makes of it:
/// what is alive follows from the same rules as there. A tensor's bytes are there as long as a
/// variable, a node that saved it, or a sum of gradients refers to them.
/// Source: pytorch torch/csrc/autograd/engine.cpp, input_buffer.cpp @ v2.11.0.
namespace planwright::estimator::tape {

class Graph;
struct Node;

/// Bytes of the device; a script of the graph says when they come and go.
class Storage {
 public:
  /// `given`: made by another script; `kept`: dropped by another one.
  Storage(Graph& graph, const Tensor& tensor, bool given);
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();
  void keep() { kept_ = true; }

 private:
  Graph& graph_;
  Tensor tensor_;
  bool kept_ = false;
};

/// What a variable of the framework refers to.
struct Var {
  std::int64_t elements = 0;
  DType type = DType::fp32;
  std::shared_ptr<Storage> storage{};
  std::shared_ptr<Node> maker{};  ///< null: a leaf, or made without gradients
  int output = 0;                 ///< of its maker
  bool needs_gradient = false;

  std::int64_t bytes() const { return elements * bytes_of(type); }
  explicit operator bool() const { return elements > 0; }
};

/// What a node keeps of a tensor: its bytes.
inline Var saved(const Var& x) {
  return {.elements = x.elements, .type = x.type, .storage = x.storage};
}
inline Var saved_if(bool wanted, const Var& x) { return wanted ? saved(x) : Var{}; }

/// Gradients of a node's inputs from those of its outputs; without bytes where none is wanted.
/// Both are moved along: what the function does not keep is gone when it returns.
using Backward = std::function<std::vector<Var>(std::vector<Var> gradients)>;

/// An operator that has run. What its backward saved is gone once that has run.
struct Node {
  std::vector<Var> inputs;  ///< without their storage: where gradients go
  std::vector<std::int64_t> outputs;
  Backward backward;
  std::int64_t number = 0;
  Account account = Account::activations;
};

/// How the engine adds up the gradients that come to one place.
enum class Sums {
  in_place,  ///< into the first, if nothing else refers to it
  apart,     ///< as under a dispatch mode, which traces are made with
};

class Graph {
 public:
  explicit Graph(Sums sums = Sums::in_place) : sums_(sums) {}

  /// What is made and dropped from now on is written there.
  void record(Script& script) { script_ = &script; }

  Var make(const char* name, std::int64_t elements, DType type, Account account);
  Var make(const char* name, std::int64_t elements, DType type) {
    return make(name, elements, type, account);
  }
  /// A tensor that another script made.
  Var given(const char* name, std::int64_t elements, DType type, bool needs_gradient);
  /// Another one of the same size and type.
  Var like(const char* name, const Var& x) { return make(name, x.elements, x.type); }
  /// An operator that has `workspace` until it returns.
  void call(const char* name, std::int64_t workspace) {
    if (workspace > 0) script_->call(name, workspace, false);
  }
  /// `var` is left to another script.
  static void keep(const Var& var) { var.storage->keep(); }
  /// The next `count` tensors of the graph's account are left to another script,
  void keep_next(int count) { keeping_ = count; }
  /// or an earlier one has left them, and they are not made.
  void reuse_next(int count) { reusing_ = count; }

  /// Makes `outputs` those of a node, if any input wants a gradient and gradients are on.
  void join(const std::vector<Var>& inputs, const std::vector<Var*>& outputs, Backward backward);

  /// The gradient of `leaf`, from that of `root`. The graph is used up.
  Var backward(Var root, Var gradient, const Var& leaf);
  /// The same of each of `leaves`.
  std::vector<Var> backward(Var root, Var gradient, const std::vector<Var>& leaves);
  /// Gradients of a weight, which `make` makes: at once, or where backward is in two, later.
  void of_weights(std::function<void()> make);
  /// At the end of the first part: what came after the last weight goes.
  void release_behind_weights();
  /// The second part of a backward in two: those gradients, in the order of the forward. What each
  /// was made from goes with it.
  void backward_of_weights();
  /// All the rest goes, which the last weights' operators lead to.
  void release_rest();

  /// The same bytes, from which no gradient goes on.
  Var detached(const Var& x);

  bool gradients = true;  ///< off: as under no_grad
  /// Backward leaves gradients of weights to backward_of_weights: it keeps the gradients of the
  /// outputs that they are made from, and all that has been saved. Source:
  /// pytorch torch/distributed/pipelining/_backward.py, stage_backward_input @ v2.11.0.
  bool in_two = false;
  /// Of what is made from now on, in the backward of it as well.
  Account account = Account::activations;
  /// Takes the gradient of a weight, as soon as it is made.
  std::function<void(Var)> adopt = [](const Var& gradient) { keep(gradient); };

 private:
  friend class Storage;
  /// What is left of a node for the second part of a backward in two.
  struct Left {
    std::shared_ptr<Node> node;
    std::vector<Var> gradients;
    std::vector<std::function<void()>> makes;
  };

  std::vector<Var> run(const std::shared_ptr<Node>& node, std::vector<Var> gradients);
  std::vector<Var> run_first(const std::shared_ptr<Node>& node, std::vector<Var> gradients);
  void accumulate(Var& sum, Var part);
  /// The gradient that a node gives, in the type of what it is the gradient of.
  Var as_of(const Var& input, Var gradient);

  Sums sums_;
  Script* script_ = nullptr;
  std::int64_t next_ = 0;
  int keeping_ = 0, reusing_ = 0;
  std::vector<std::function<void()>> postponed_;  ///< by the node that runs
  std::vector<Left> left_;
  std::vector<std::shared_ptr<Node>> done_;  ///< in the first part
};

}  // namespace planwright::estimator::tape
