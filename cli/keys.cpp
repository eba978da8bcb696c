#include "cli/keys.h"

#include <algorithm>

namespace planwright::cli {

const std::vector<Key>& all_keys() {
  using enum Shape;
  static const std::vector<Key> kKeys{
      {"model", Table::model, path_or_name, "PATH|NAME",
       "a Hugging Face config.json, its folder, or a preset (planwright models)"},
      {"pad-vocab", Table::model, integer, "N",
       "its vocabulary, filled up to a multiple of N, as a framework does"},

      {"device", Table::cluster, text, "NAME|auto|cpu",
       "a preset (planwright devices), this host's GPUs or its CPU [auto]"},
      {"devices", Table::cluster, integer, "N", "devices in all [every GPU found; 2 on a CPU]"},
      {"per-node", Table::cluster, integer, "N", "devices per node [8, or all if fewer]"},
      {"memory", Table::cluster, text, "SIZE", "usable memory of each device, as 16GiB"},
      {"cluster", Table::cluster, path_or_name, "NAME|FILE.toml",
       "nodes of a preset (planwright devices), or links, host memory, price per device-hour"},
      {"threads", Table::cluster, integer, "N", "threads of each rank on a CPU [cores / devices]"},

      {"job", Table::job, text, "WORD", "pretrain, finetune, lora, qlora, inference [pretrain]"},
      {"target", Table::job, text, "NAME", "the runtime that trains [builtin]"},
      {"seq", Table::job, integer, "N", "tokens per sequence; of an inference, its context"},
      {"global-batch", Table::job, integer, "N",
       "sequences per optimizer step; of an inference, at once"},
      {"precision", Table::job, text, "WORD", "bf16, fp16, fp32, fp8, fp64 [bf16]"},
      {"optimizer", Table::job, text, "WORD", "adamw, sgd, lion, adafactor ... [adamw]"},
      {"lora-rank", Table::job, integer, "N", "rank of the adapters [8]"},
      {"lora-targets", Table::job, text, "LIST",
       "modules that get adapters, or all-linear [q_proj,v_proj]"},
      {"quant", Table::job, text, "WORD",
       "weights of linear layers: none, nf4, nf4-dq, int8, int4, gptq, awq, fp8 ... (qlora, "
       "inference)"},
      {"kv-dtype", Table::job, text, "WORD",
       "the cache of an inference: fp32, bf16, fp16, fp8, int8, int4 [as the arithmetic]"},
      {"kv-block", Table::job, integer, "N", "tokens of a page of that cache [16]"},
      {"prefill", Table::job, integer, "N", "tokens that an inference reads at once [2048]"},
      {"grad-dtype", Table::job, text, "WORD", "gradients, if not the target's default"},
      {"master-weights", Table::job, toggle, "on|off",
       "a master copy, if not the target's default"},
      {"state-dtype", Table::job, text, "WORD", "optimizer states, if not the target's default"},
      {"hidden-dropout", Table::job, number, "P",
       "probability, of the embedding and of what blocks add [0]"},
      {"attention-dropout", Table::job, number, "P", "probability, of attention's weights [0]"},
      {"headroom", Table::job, text, "5%|2GiB", "memory kept free on each device [5%]"},

      {"tp", Table::candidate, integer, "N", "tensor parallel ranks"},
      {"pp", Table::candidate, integer, "N", "pipeline stages"},
      {"vpp", Table::candidate, integer, "N", "model chunks per stage"},
      {"cp", Table::candidate, integer, "N", "context parallel ranks"},
      {"ep", Table::candidate, integer, "N", "expert parallel ranks"},
      {"etp", Table::candidate, integer, "N", "tensor parallel ranks of the experts"},
      {"dp", Table::candidate, integer, "N", "data parallel ranks [devices / (tp pp cp)]"},
      {"zero", Table::candidate, integer, "0|1|2|3", "what the data ranks shard"},
      {"hsdp", Table::candidate, integer, "N", "replicas of the sharding group"},
      {"micro-batch", Table::candidate, integer, "N", "sequences per micro-batch"},
      {"schedule", Table::candidate, text, "WORD", "gpipe, 1f1b, interleaved, zb"},
      {"sp", Table::candidate, toggle, "on|off", "sequence parallel"},
      {"recompute", Table::candidate, text, "WORD",
       "none, full, selective[:MODULES joined by +, by target], chunk:K, ..."},
      {"offload", Table::candidate, text, "WORDS",
       "none, optimizer, params, activations (joined by +)"},
      {"offload-to", Table::candidate, text, "cpu|nvme", "where to"},
      {"attention", Table::candidate, text, "WORD", "flash, eager"},
      {"loss", Table::candidate, text, "WORD", "plain, fused, chunked"},
      {"knobs", Table::candidate, pairs, "NAME=VALUE,..", "the target's own dimensions"},
      {"plan", Table::candidate, path, "FILE.json", "a plan that emit wrote, instead of the above"},

      {"probes", Table::budget, integer, "N",
       "probes of the whole study [until nothing is left that may win]"},
      {"time", Table::budget, text, "2h", "time of this run; a probe that has begun is finished"},
      {"mode", Table::budget, text, "full|shadow",
       "the whole job, or one rank of it played by one process [full]"},
      {"rank", Table::budget, integer, "N", "of a shadow probe [the one with the largest peak]"},
      {"steps", Table::budget, integer, "N",
       "measured steps of a probe [3]; what emit puts for {steps}"},
      {"warmup", Table::budget, integer, "N", "steps before the measured ones [1]"},
      {"no-benchmark", Table::budget, mark, "", "do not measure the host's rates first"},

      {"timeout", Table::launch, text, "10m", "longest run of one probe [10m]"},
      {"watchdog", Table::launch, text, "60s",
       "longest silence of a rank [60s; 5m of a script of your own]"},
      {"environment", Table::launch, pairs, "NAME=VALUE,..",
       "environment of the ranks, in probes and in the launch"},
      {"worker", Table::launch, path, "PROGRAM", "the worker [beside planwright]"},
      {"template", Table::launch, path, "FILE",
       "of the target command: a file in which {placeholders} are filled; {template} is its path"},
      {"launcher", Table::launch, text, "WORD",
       "what starts the ranks of a framework: torchrun or deepspeed [torchrun]"},
      {"observe", Table::launch, toggle, "on|off",
       "whether the user's own framework is watched from inside [on]"},
      {"command", Table::launch, words, "WORDS", "the command or script, else behind --"},
      {"flags", Table::launch, table, "TABLE", "words of that command for the values of an axis"},
      {"log", Table::launch, table, "TABLE", "how it writes its figures"},

      {"storage", Table::storage, path, "FILE.db", "the studies' database [planwright.db]"},
      {"study", Table::storage, text, "NAME", "name of the study [from the problem's hash]"},

      {"top", Table::none, integer, "N", "plans to show [20]"},
      {"explain-dropped", Table::none, mark, "", "also say what each dropped candidate breaks"},
      {"resume", Table::none, mark, "", "go on with the study if it exists (the default)"},
      {"save-plan", Table::none, path, "FILE.json",
       "keep the plan if it fits, of several the fastest, for emit --plan and probe --plan"},
      {"trial", Table::none, integer, "N", "this trial instead of the best"},
      {"out", Table::none, text, "DIR", "folder for the files [launch]"},
      {"force", Table::none, mark, "", "overwrite files that exist"},
      {"diff", Table::none, path, "FILE",
       "write nothing: say where this configuration in use differs from the plan's"},
      {"calibrate-on", Table::none, path, "FILE.csv",
       "first correct the model by the memory that these rows measured: in full for rows of the "
       "same source, by half for those of others"},
      {"gpu", Table::none, mark, "", "the self-test of this host's GPU instead"},

      {"json", Table::none, mark, "", "the result as JSON on stdout"},
      {"quiet", Table::none, mark, "", "errors only on stderr"},
      {"verbose", Table::none, mark, "", "more on stderr"},
      {"color", Table::none, text, "WORD", "auto, always, never [auto]"},
      {"seed", Table::none, integer, "N", "of every random choice [0]"},
      {"help", Table::none, mark, "", "this text"},
  };
  return kKeys;
}

const Key* find_key(std::string_view name) {
  const auto& keys = all_keys();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const Key& key) { return key.name == name; });
  return found == keys.end() ? nullptr : &*found;
}

bool belongs(const Key& key, Table table) {
  if (table == Table::none) return false;
  return key.table == table ||
         (table == Table::space && key.table == Table::candidate && key.name != "plan");
}

std::string toml_spelling(std::string_view flag) {
  std::string text(flag);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

std::string flag_spelling(std::string_view toml_key) {
  std::string text(toml_key);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

}  // namespace planwright::cli
