#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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
  /// What a node has of `there`: bytes that leave, and come back to be its own.
  Storage(std::shared_ptr<Storage> there, std::int64_t bytes);
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;
  ~Storage();
  void keep() { (there_ ? there_->kept_ : kept_) = true; }
  Graph& graph() const { return graph_; }
  /// Of what a node has: a copy goes to the host; with `stays` the bytes do not leave.
  void send(bool stays);
  /// The bytes are there again, and the copy is not.
  void come();
  /// The bytes go, whoever refers to them,
  void release();
  /// and are made again.
  void restore();

 private:
  Graph& graph_;
  Tensor tensor_;
  bool kept_ = false;
  bool of_node_ = false, copied_ = false;
  std::shared_ptr<Storage> there_{};
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
Var saved(const Var& x);
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
  std::vector<std::shared_ptr<Storage>> held{};  ///< of what it saved, that which may leave
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

  /// From here to the module's exit nodes save for a group, whose input `x` is. Null, and nothing
  /// is done, if not `wanted`. What is `released` at its commit goes whoever refers to it.
  std::optional<std::size_t> enter(bool wanted, Var& x);
  void exit(std::optional<std::size_t> group);
  void commit(std::optional<std::size_t> group, const std::vector<Var>& released);
  /// The group that was committed last, of those that have not come back, comes back.
  void reload();
  /// Of a group a smaller tensor stays.
  std::int64_t least_elements = 0;
  bool copies_saved = false;  ///< what nodes save now is copied to the host, and stays

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

  static void bring(Node& node);
  std::vector<Var> run(const std::shared_ptr<Node>& node, std::vector<Var> gradients);
  std::vector<Var> run_first(const std::shared_ptr<Node>& node, std::vector<Var> gradients);
  friend Var saved(const Var& x);
  Var hold(const Var& x);
  bool is_copied(const std::shared_ptr<Storage>& storage) const;
  void accumulate(Var& sum, Var part);
  /// The gradient that a node gives, in the type of what it is the gradient of.
  Var as_of(const Var& input, Var gradient);

  Sums sums_;
  Script* script_ = nullptr;
  std::int64_t next_ = 0;
  int keeping_ = 0, reusing_ = 0;
  using Held = std::vector<std::weak_ptr<Storage>>;
  std::vector<Held> groups_;
  std::vector<std::size_t> entered_, committed_;
  std::vector<std::shared_ptr<Storage>> held_;  ///< by the node that is joined next
  Held copied_;
  std::vector<std::function<void()>> postponed_;  ///< by the node that runs
  std::vector<Left> left_;
  std::vector<std::shared_ptr<Node>> done_;  ///< in the first part
};

}  // namespace planwright::estimator::tape
