#include "cli/row_problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "cli/row_cells.h"
#include "cli/row_model.h"
#include "cli/row_versions.h"
#include "cli/row_words.h"
#include "cli/targets.h"
#include "estimator/devices.h"

namespace planwright::cli {
namespace {

/// The presets that the row's `gpu` may mean, of the memory that it says.
std::vector<std::string> devices_meant(const RowCells& cells, const Setting& gpu) {
  std::vector<std::string> names = estimator::devices_named(gpu.text);
  const auto gigabytes = cells.row().number("gpu_mem_gb");
  if (names.size() < 2 || !gigabytes) return names;
  std::erase_if(names, [&](const std::string& name) {
    const DeviceSpec device = estimator::find_device(name, "", gpu.key);
    return std::abs(gib(device.memory_stated) - *gigabytes) > 0.5;
  });
  return names;
}

/// A device, and whether it is known how much memory it has.
struct RowDevice {
  Setting name;
  bool memory_known = true;
};

/// Forms of one device with the same memory differ in their links and rates only. Where none is
/// named, any accelerator stands for it: what is allocated on it hardly depends on it.
RowDevice device_of(RowCells& cells) {
  const MeasuredRow& row = cells.row();
  const Setting gpu = cells.required("gpu");
  if (!row.says("gpu")) return {gpu, row.says("gpu_mem_gb")};
  const auto names = devices_meant(cells, gpu);
  if (names.empty()) return {{estimator::find_device(gpu.text, "", gpu.key).name, "", gpu.key}};
  const auto memory = [&](const std::string& name) {
    return estimator::find_device(name, "", gpu.key).memory_stated;
  };
  const bool alike = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return memory(name) == memory(names.front());
  });
  if (names.size() > 1) cells.assume("gpu " + names.front());
  return {{names.front(), "", gpu.key}, alike};
}

/// The degrees of the row's parallelism, and its batch.
struct Layout {
  std::int64_t tp, pp, cp, dp, devices, micro_batch, global_batch;
};

/// As the row says, or as many as are usual, if the layout goes into them: experts are split over
/// the ranks of a stage.
std::int64_t usual_devices(RowCells& cells, const Layout& layout) {
  if (cells.row().says("n_gpus")) return cells.count("n_gpus");
  const Setting devices = cells.required("n_gpus");
  const std::int64_t count = parse_integer(devices, 1);
  const std::int64_t experts = cells.row().count("ep").value_or(1);
  const bool fits =
      count % (layout.tp * layout.pp * layout.cp) == 0 && count / layout.pp % experts == 0;
  if (!fits) refuse_missing("n_gpus");
  return count;
}

/// Data ranks, of which a row gives the number or that of all devices.
void read_ranks(RowCells& cells, Layout& layout) {
  layout.tp = cells.count("tp");
  layout.pp = cells.count("pp");
  layout.cp = cells.count("cp");
  const MeasuredRow& row = cells.row();
  const std::int64_t split = layout.tp * layout.pp * layout.cp;
  if (!row.says("dp")) {
    layout.devices = usual_devices(cells, layout);
    layout.dp = layout.devices / split;
    cells.assume(fmt::format("dp {}", layout.dp));
  } else {
    layout.dp = cells.count("dp");
    layout.devices = row.count("n_gpus").value_or(split * layout.dp);
    if (!row.says("n_gpus")) cells.assume(fmt::format("n_gpus {}", layout.devices));
  }
  if (split * layout.dp == layout.devices) return;
  refuse(row.says("n_gpus") ? cells.required("n_gpus") : cells.required("dp"),
         fmt::format("is not tp {} x pp {} x cp {} x dp {}", layout.tp, layout.pp, layout.cp,
                     layout.dp));
}

/// Of micro-batch, global batch and accumulation any two give the third.
void read_batch(RowCells& cells, Layout& layout) {
  const MeasuredRow& row = cells.row();
  const bool whole = row.says("global_batch");
  if (row.says("micro_batch")) {
    layout.micro_batch = cells.count("micro_batch");
  } else {
    if (!whole || !row.says("grad_accum")) refuse_missing("micro_batch");
    layout.micro_batch = cells.count("global_batch") / (layout.dp * cells.count("grad_accum"));
    cells.assume(fmt::format("micro_batch {}", layout.micro_batch));
  }
  const std::int64_t at_once = layout.micro_batch * layout.dp;
  layout.global_batch = whole ? cells.count("global_batch") : at_once * cells.count("grad_accum");
  if (!whole) cells.assume(fmt::format("global_batch {}", layout.global_batch));
  const auto accumulated = row.count("grad_accum");
  if (!accumulated || at_once * *accumulated == layout.global_batch) return;
  refuse(cells.required("grad_accum"),
         fmt::format("x micro_batch {} x dp {} is not global_batch {}", layout.micro_batch,
                     layout.dp, layout.global_batch));
}

Layout read_layout(RowCells& cells) {
  Layout layout{};
  read_ranks(cells, layout);
  read_batch(cells, layout);
  return layout;
}

Setting whole(std::int64_t value, const char* column) {
  return {std::to_string(value), "", column};
}

/// Whether the devices' memory is known.
bool put_devices(RowCells& cells, const Layout& layout, Settings& settings) {
  const RowDevice device = device_of(cells);
  settings.set(Table::cluster, "device", device.name);
  settings.set(Table::cluster, "devices", whole(layout.devices, "n_gpus"));
  if (!device.memory_known) cells.assume("nothing of the devices' memory");
  if (!cells.row().says("gpu") && device.memory_known) {
    settings.set(Table::cluster, "memory",
                 {cells.row().text("gpu_mem_gb") + "GiB", "", "gpu_mem_gb"});
  }
  const auto full_node = cells.row().count("gpus_per_node");
  if (!full_node) return device.memory_known;
  const std::int64_t per_node = std::min(*full_node, layout.devices);
  if (layout.devices % per_node != 0) {
    refuse(whole(per_node, "gpus_per_node"),
           fmt::format("must divide n_gpus {} into whole nodes", layout.devices));
  }
  settings.set(Table::cluster, "per-node", whole(per_node, "gpus_per_node"));
  return device.memory_known;
}

bool is_none(const Setting& setting) { return setting.text == "none"; }

/// What each part of a list means, joined as they were.
std::string meanings(std::string_view column, const std::string& list, char separator) {
  std::string joined;
  std::size_t begin = 0;
  while (true) {
    const std::size_t end = std::min(list.find(separator, begin), list.size());
    joined += meaning(column, list.substr(begin, end - begin));
    if (end == list.size()) return joined;
    joined += separator;
    begin = end + 1;
  }
}

/// Whether there are adapters: their rank, their places, or frozen weights that are quantised.
bool has_adapters(RowCells& cells) {
  const MeasuredRow& row = cells.row();
  return row.count("lora_rank").value_or(0) > 0 || row.says("lora_targets") ||
         row.text("model").find("LoRA") != std::string::npos || !is_none(cells.required("quant"));
}

/// Adapters, where there are any: a row's job follows from them.
void put_adapters(RowCells& cells, Settings& settings) {
  const Setting quant = cells.required("quant");
  if (!has_adapters(cells)) {
    settings.set(Table::job, "job", {"pretrain", "", "lora_rank"});
    return;
  }
  const Setting rank = cells.required("lora_rank");
  Setting targets = cells.required("lora_targets");
  if (targets.text == "unstated") refuse_missing(targets.key);
  targets.text = meanings("lora_target", targets.text, ',');
  settings.set(Table::job, "job", {is_none(quant) ? "lora" : "qlora", "", "quant"});
  settings.set(Table::job, "lora-rank", rank);
  settings.set(Table::job, "lora-targets", targets);
  if (!is_none(quant)) settings.set(Table::job, "quant", quant);
}

/// Whether the weights themselves are what an fp32 master would be a copy of.
bool stores_fp32(const TargetTraits& traits, const std::string& precision) {
  const auto known = from_word<Precision>(precision);
  const auto recipe = known ? traits.recipe(*known) : std::nullopt;
  return recipe && recipe->storage == DType::fp32;
}

/// Of "name=value,name=value".
std::map<std::string, std::string> pairs_of(const std::string& list) {
  std::map<std::string, std::string> pairs;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::size_t equals = list.find('=', begin);
    pairs[list.substr(begin, equals - begin)] = list.substr(equals + 1, end - equals - 1);
    begin = end + 1;
  }
  return pairs;
}

/// The engine and other knobs that the framework's name decides.
std::map<std::string, std::string> named_knobs(const RowCells& cells) {
  const auto known = known_meaning("knobs", cells.row().text("framework"));
  return known ? pairs_of(*known) : std::map<std::string, std::string>{};
}

/// Whether weights are updated in the narrow type that they are loaded in, if there is no master.
/// An engine brings a master of its own; in fp16 it is needed, since torch.amp's GradScaler refuses
/// gradients of that type; and adapters have a type of their own.
bool updates_as_loaded(RowCells& cells, const TargetTraits& traits) {
  if (!traits.states_like_weights || has_adapters(cells)) return false;
  const auto knobs = named_knobs(cells);
  const auto engine = knobs.find("engine");
  const bool own_master = engine != knobs.end() && engine->second == "deepspeed";
  return !own_master && cells.required("precision").text == word(Precision::bf16);
}

/// A master copy in fp32 is what `on` means, none that weights are updated as they are loaded; in
/// another type none can be asked for.
void put_types(RowCells& cells, const TargetTraits& traits, Settings& settings) {
  const MeasuredRow& row = cells.row();
  if (const auto gradients = cells.setting("grad_dtype")) {
    settings.set(Table::job, "grad-dtype", {meaning("dtype", gradients->text), "", "grad_dtype"});
  }
  const bool narrow = updates_as_loaded(cells, traits);
  if (!row.says("master_dtype") && !(narrow && cells.usual("master_dtype"))) return;
  const Setting cell = cells.required("master_dtype");
  const Setting master{meaning("dtype", cell.text), "", cell.key};
  if (narrow && is_none(master)) {
    settings.set(Table::job, "state-dtype", cells.required("precision"));
    return;
  }
  if (master.text != "fp32") refuse(master, "must be fp32, or left out", "fp32");
  if (stores_fp32(traits, cells.required("precision").text)) return;
  settings.set(Table::job, "master-weights", {"on", "", master.key});
}

/// What the framework does by itself, which may be to leave it to the model: that has what the one
/// that is known for its activation has.
void put_dropout(RowCells& cells, Settings& settings) {
  for (const char* place : {"hidden", "attention"}) {
    auto dropout = cells.usual(fmt::format("{}_dropout", place));
    if (!dropout) continue;
    if (dropout->text == "as the block") {
      const RowBlock* block = block_with(cells.row().text("act"));
      if (block == nullptr) continue;
      dropout->text = block->dropout;
    }
    settings.set(Table::job, fmt::format("{}-dropout", place), *dropout);
  }
}

void put_job(RowCells& cells, const Layout& layout, const TargetTraits& traits,
             Settings& settings) {
  settings.set(Table::job, "seq", cells.required("seq_len"));
  settings.set(Table::job, "global-batch", whole(layout.global_batch, "global_batch"));
  settings.set(Table::job, "precision", cells.required("precision"));
  settings.set(Table::job, "optimizer", cells.required("optimizer"));
  settings.set(Table::job, "headroom", {"0%", "", "gpu_mem_gb"});
  put_types(cells, traits, settings);
  put_dropout(cells, settings);
  put_adapters(cells, settings);
}

/// A target's own word comes before what everyone means by it.
Setting recompute_of(RowCells& cells) {
  const MeasuredRow& row = cells.row();
  if (row.says("recompute")) {
    const auto own = known_meaning(target_of(row) + " recompute", row.text("recompute"));
    if (own) return {*own, "", "recompute"};
  }
  return cells.required("recompute");
}

/// Without tensor ranks there is nothing to split it over.
bool splits_sequence(RowCells& cells, const Layout& layout) {
  const Setting sp = cells.required("sp");
  return layout.tp > 1 && (sp.text == "tp" || parse_integer(sp, 0) == 1);
}

std::string toggle(bool on) { return on ? "on" : "off"; }

/// Ranks that have a part of each expert: as many as have a part of all else, where that is usual,
/// as far as the ranks of experts leave room for them.
void put_expert_ranks(RowCells& cells, const Layout& layout, Settings& settings) {
  if (cells.row().count("experts").value_or(0) == 0) return;
  const auto etp = cells.usual("etp");
  if (!etp) return;
  const std::int64_t ranks = layout.tp * layout.cp * layout.dp, ep = cells.count("ep");
  const std::int64_t fitting = std::gcd(layout.tp, ranks % ep == 0 ? ranks / ep : 1);
  settings.set(Table::candidate, "etp", etp->text == "tp" ? whole(fitting, "tp") : *etp);
}

void put_axes(RowCells& cells, const Layout& layout, Settings& settings) {
  const auto count = [&](std::string_view axis, std::int64_t value, const char* column) {
    settings.set(Table::candidate, axis, whole(value, column));
  };
  count("tp", layout.tp, "tp");
  count("pp", layout.pp, "pp");
  count("cp", layout.cp, "cp");
  count("dp", layout.dp, "dp");
  count("micro-batch", layout.micro_batch, "micro_batch");
  for (const char* axis : {"vpp", "ep", "zero"}) {
    settings.set(Table::candidate, axis, cells.required(axis));
  }
  settings.set(Table::candidate, "recompute", recompute_of(cells));
  const auto word = [&](std::string_view axis, std::string value, const char* column) {
    settings.set(Table::candidate, axis, {std::move(value), "", column});
  };
  word("offload", meanings("offload", cells.required("offload").text, '+'), "offload");
  if (cells.count("vpp") > 1) word("schedule", "interleaved", "vpp");
  word("sp", toggle(splits_sequence(cells, layout)), "sp");
  word("attention", cells.flag("flash") ? "flash" : "eager", "flash");
  if (const auto loss = cells.usual("loss")) word("loss", loss->text, "loss");
  put_expert_ranks(cells, layout, settings);
}

/// Of one stage nothing need be assumed.
PeakOf stage_meant(RowCells& cells, int stages) {
  if (stages == 1) return PeakOf::any;
  const Setting stage = cells.required("peak_of");
  const auto known = from_word<PeakOf>(stage.text);
  if (!known) refuse(stage, "must be one of " + join_words(all_words<PeakOf>()));
  return *known;
}

/// How products are in 8 bits, where the target has knobs for it: as the precision's own word says,
/// else as is usual.
void add_fp8_knobs(RowCells& cells, const TargetTraits& traits,
                   std::map<std::string, std::string>& knobs) {
  if (cells.required("precision").text != word(Precision::fp8)) return;
  for (const Knob& knob : traits.knobs) {
    if (!knob.name.starts_with("fp8_")) continue;
    if (const auto said = known_meaning(knob.name, cells.row().text("precision"))) {
      knobs[knob.name] = *said;
    } else if (const auto usual = cells.usual(knob.name)) {
      knobs[knob.name] = usual->text;
    }
  }
}

/// What is compiled, where that changes what the target keeps.
void add_compiled(RowCells& cells, const TargetTraits& traits,
                  std::map<std::string, std::string>& knobs) {
  if (has_knob(traits.knobs, "compile")) {
    if (const auto compiled = cells.setting("compile")) knobs["compile"] = compiled->text;
  } else if (cells.row().flag("compile").value_or(false)) {
    cells.assume("compile changes nothing");
  }
}

/// Those of the framework's name, of its version, and of the types.
void put_knobs(RowCells& cells, const TargetTraits& traits, Settings& settings) {
  std::map<std::string, std::string> knobs = named_knobs(cells);
  if (knobs.empty()) {
    if (const auto usual = cells.usual("knobs")) knobs = pairs_of(usual->text);
  }
  for (auto& [name, value] : version_knobs(cells, traits.knobs)) knobs[name] = value;
  add_fp8_knobs(cells, traits, knobs);
  add_compiled(cells, traits, knobs);
  if (settings.find(Table::job, "state-dtype") != nullptr) knobs["autocast"] = "off";
  const std::string& kernels = cells.row().text("kernels");
  if (!kernels.empty()) {
    knobs["kernels"] = meaning("kernels", kernels);
    if (const auto loss = known_meaning("loss", kernels)) {
      settings.set(Table::candidate, "loss", {*loss, "", "kernels"});
    }
  }
  if (knobs.empty()) return;
  std::string list;
  for (const auto& [name, value] : knobs) {
    list += fmt::format("{}{}={}", list.empty() ? "" : ",", name, value);
  }
  settings.set(Table::candidate, "knobs", {list, "", "framework"});
}

/// Of a family's models as transformers configures them, where that is what runs.
void put_dropout(RowCells& cells, const ModelSpec& model, const TargetTraits& traits,
                 Settings& settings) {
  const auto usual = usual_dropout(model.family);
  if (!usual || !has_knob(traits.knobs, "transformers")) return;
  cells.assume(fmt::format("dropout {}, of attention {}", usual->hidden, usual->attention));
  settings.set(Table::job, "hidden-dropout", {usual->hidden, "", "model"});
  settings.set(Table::job, "attention-dropout", {usual->attention, "", "model"});
}

}  // namespace

std::string target_of(const MeasuredRow& row) {
  return meaning("framework", row.text("framework"));
}

std::optional<std::size_t> stage_meant(PeakOf peak_of, const Candidate& candidate) {
  if (peak_of == PeakOf::first) return 0;
  if (peak_of == PeakOf::last) return static_cast<std::size_t>(candidate.pp) - 1;
  return std::nullopt;
}

RowProblem problem_of(const MeasuredRow& row) {
  if (!row.says("framework")) refuse_missing("framework");
  const Setting target{target_of(row), "", "framework"};
  const TargetTraits& traits = find_target(target)->traits;
  RowCells cells(row, target.text);
  Settings settings;
  settings.set(Table::job, "target", target);
  const Layout layout = read_layout(cells);
  const bool memory_known = put_devices(cells, layout, settings);
  put_job(cells, layout, traits, settings);
  put_axes(cells, layout, settings);
  put_knobs(cells, traits, settings);
  const ModelSpec model = model_of(cells);
  put_dropout(cells, model, traits, settings);
  RowProblem made{read_one_candidate(settings, model), PeakOf::any, {}, memory_known, {}};
  made.peak_of = stage_meant(cells, made.one.candidate.pp);
  made.readings =
      other_readings(row, traits.knobs, made.one.candidate, made.one.input.problem.workload.job);
  made.assumed = cells.assumed();
  return made;
}

}  // namespace planwright::cli
