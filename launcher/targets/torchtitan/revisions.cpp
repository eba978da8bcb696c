#include "launcher/targets/torchtitan/revisions.h"

#include "launcher/targets/shared/knobs.h"

namespace planwright::targets::torchtitan {
namespace {

template <class Word>
Word chosen(const Candidate& c, const char* knob) {
  return from_word<Word>(knob_value(c, revision_knobs(), knob)).value_or(Word{});
}

/// Whether the candidate's code is that of `revision` or of a later one.
bool since(Revision revision, const Candidate& c) {
  return chosen<Revision>(c, kRevisionKnob) <= revision;
}

}  // namespace

const std::vector<Knob>& revision_knobs() {
  static const std::vector<Knob> kKnobs{
      {kRevisionKnob, all_words<Revision>(),
       "since when torchtitan's code is as the job's: units, norms, loss and experts"},
      {kCompileKnob, all_words<Compiled>(), "what torch.compile is asked for"}};
  return kKnobs;
}

/// Source: train.py @ e29b6b4d4 of 2024-06-12, which deletes them before the backward.
bool holds_logits(const Candidate& c) { return !since(Revision::june_2024, c); }

/// Sources: torchtitan/models/norms.py until 3b39d7ab0 of 2025-03-19; after it nn.RMSNorm, whose
/// kernel is in torch from 2.9 on, which the code of 2025-07-28 and later is run with: pytorch
/// aten/src/ATen/native/native_functions.yaml, _fused_rms_norm @ v2.9.0.
bool composes_norms(const Candidate& c) { return !since(Revision::july_2025, c); }

/// Source: torchtitan/models/llama3/infra/parallelize.py, apply_fsdp, until 83e694105 of
/// 2025-07-28.
bool joins_outer_units(const Candidate& c) { return !since(Revision::july_2025, c); }

/// Source: torchtitan/components/optimizer.py @ 6e4988550 of 2025-02-24.
bool has_fused_adamw(const Candidate& c) { return since(Revision::april_2025, c); }

/// Source: torchtitan/models/moe/moe.py until e1f7f318a of 2025-11-21.
bool weighs_rows(const Candidate& c) { return !since(Revision::v0_2_2, c); }

/// Source: torchtitan/models/deepseek_v3/infra/parallelize.py, _save_list @ c4e229115 of
/// 2025-09-06.
bool keeps_exchanged(const Candidate& c) { return since(Revision::september_2025, c); }

Compiled compiled(const Candidate& c) { return chosen<Compiled>(c, kCompileKnob); }

bool compiles_blocks(const Problem& problem, const Candidate& c) {
  const Compiled asked = compiled(c);
  return asked == Compiled::blocks || asked == Compiled::all ||
         problem.workload.precision == Precision::fp8;
}

/// Source: torchtitan/components/loss.py @ bbb1b616e of 2025-04-02; its train.py of 2024-12-26 has
/// that commented out.
bool compiles_loss(const Problem& problem, const Candidate& c) {
  if (!since(Revision::april_2025, c)) return false;
  const Compiled asked = compiled(c);
  return asked == Compiled::loss || asked == Compiled::all ||
         problem.workload.precision == Precision::fp8;
}

}  // namespace planwright::targets::torchtitan
