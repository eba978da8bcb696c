#include "estimator/torch_ring.h"

#include <utility>
#include <vector>

namespace planwright::estimator::tape {
namespace {

/// One rank's way round; the shapes of its tensors are those of q, k and v.
class Ring {
 public:
  Ring(Graph& graph, const Var& q, const Var& k, const Var& v, const Heads& heads,
       std::int64_t ranks)
      : graph_(graph),
        queries_(q.elements),
        keys_(k.elements),
        values_(v.elements),
        outputs_(q.elements / heads.width *
                 (heads.value_width > 0 ? heads.value_width : heads.width)),
        rows_(heads.batch * heads.heads * heads.seq),
        type_(q.type),
        heads_(heads),
        ranks_(ranks) {}

  /// What is kept of it for the backward.
  struct Result {
    Var out, lse;
  };

  Result forward() const;
  std::vector<Var> backward(Var gradient) const;

 private:
  Var wide(const char* name, std::int64_t elements) const {
    return graph_.make(name, elements, DType::fp32);
  }
  Var narrow(const char* name, std::int64_t elements) const {
    return graph_.make(name, elements, type_);
  }
  Var gathered() const;
  void merge(Var& sum, Var& logs) const;
  std::vector<Var> kernel_backward(std::int64_t part) const;
  Var passed_on() const;

  Graph& graph_;
  std::int64_t queries_, keys_, values_, outputs_, rows_;
  DType type_;
  Heads heads_;
  std::int64_t ranks_;
};

/// All ranks' keys and values beside each other.
Var Ring::gathered() const {
  const Var own = narrow("cat", keys_ + values_);
  return graph_.make("gathered", ranks_ * (keys_ + values_), type_, Account::communication);
}

/// _SDPAMerger: each result is added to the ones before, weighed anew.
void Ring::merge(Var& sum, Var& logs) const {
  Var block = wide("to", outputs_);
  if (!sum) {
    sum = std::move(block);
    return;
  }
  {
    const Var weight = wide("sigmoid", rows_);
    Var difference = wide("sub", outputs_);
    const Var weighed = wide("mul", outputs_);
    difference = {};
    sum = wide("sub", outputs_);
  }
  const Var weight = wide("logsigmoid", rows_);
  logs = wide("sub", rows_);
}

Ring::Result Ring::forward() const {
  Var key = narrow("clone", keys_), value = narrow("clone", values_);
  Var all, sum, logs, out;
  for (std::int64_t step = 0; step < ranks_; ++step) {
    if (step == 1) key = value = {};
    if (step == 0) all = gathered();
    Var next = narrow("flash", outputs_), block_logs = wide("lse", rows_);
    out = std::move(next);
    if (!logs) logs = block_logs;
    merge(sum, logs);
  }
  out = {};
  out = narrow("to", outputs_);
  return {std::move(out), std::move(logs)};
}

/// Of the own keys and values, or of the earlier half of another rank's.
std::vector<Var> Ring::kernel_backward(std::int64_t part) const {
  std::vector<Var> made{narrow("flash", queries_), narrow("flash", keys_ / part),
                        narrow("flash", values_ / part)};
  std::vector<Var> scratch;
  if (heads_.sums_apart) {
    scratch.push_back(wide("softmax_d", rows_));
    scratch.push_back(wide("dq_accum", queries_));
  }
  for (int i = 0; heads_.sums_apart && heads_.heads != heads_.kv_heads && i < 2; ++i) {
    scratch.push_back(narrow("dkv_expanded", queries_ / part));
  }
  return made;
}

/// What has been summed so far goes to the next rank, and another's comes.
Var Ring::passed_on() const {
  const Var own = wide("cat", keys_ + values_);
  return graph_.make("passed on", keys_ + values_, DType::fp32, Account::communication);
}

std::vector<Var> Ring::backward(Var gradient) const {
  Var dq = wide("zeros", queries_), dk = wide("zeros", keys_), dv = wide("zeros", values_);
  Var key = narrow("clone", keys_), value = narrow("clone", values_);
  Var all, passing;
  std::vector<Var> made;
  for (std::int64_t step = 0; step < ranks_; ++step) {
    if (step == 1) key = value = {};
    if (step == 0) all = gathered();
    made = kernel_backward(step == 0 ? 1 : 2);
    if (step > 0) {
      dk = dv = passing;  // views of it, of which _partial_update makes copies
      dk = wide("cat", keys_);
      dv = wide("cat", values_);
    }
    passing = passed_on();
  }
  gradient = {};
  Var narrow_dq = narrow("to", queries_);
  dq = std::move(narrow_dq);
  const Var both = narrow("to", keys_ + values_);
  Var of_k = both, of_v = both;
  of_k.elements = keys_;
  of_v.elements = values_;
  return {std::move(dq), std::move(of_k), std::move(of_v)};
}

}  // namespace

Var ring_attention(Graph& graph, const Var& q, const Var& k, const Var& v, const Heads& heads,
                   std::int64_t ranks) {
  const Ring ring(graph, q, k, v, heads, ranks);
  Ring::Result result = ring.forward();
  Var out = result.out;
  graph.join(
      {q, k, v}, {&out},
      [ring, kept_q = saved(q), kept_k = saved(k), kept_v = saved(v), kept = saved(result.out),
       logs = saved(result.lse)](std::vector<Var> g) { return ring.backward(std::move(g[0])); });
  return out;
}

}  // namespace planwright::estimator::tape
