#include "cli/row_problem.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cli/row_cells.h"
#include "cli/row_model.h"
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

/// Forms of one device with the same memory differ in their links and rates only.
Setting device_of(RowCells& cells) {
  const Setting gpu = cells.required("gpu");
  const auto names = devices_meant(cells, gpu);
  if (names.empty()) return {estimator::find_device(gpu.text, "", gpu.key).name, "", gpu.key};
  const auto memory = [&](const std::string& name) {
    return estimator::find_device(name, "", gpu.key).memory_stated;
  };
  const bool alike = std::all_of(names.begin(), names.end(), [&](const std::string& name) {
    return memory(name) == memory(names.front());
  });
  if (!alike) {
    refuse(gpu, "names devices of different memory: " + join_words(names) +
                    "; missing column: gpu_mem_gb");
  }
  if (names.size() > 1) cells.assume("gpu " + names.front());
  return {names.front(), "", gpu.key};
}

/// The degrees of the row's parallelism, and its batch.
struct Layout {
  std::int64_t tp, pp, cp, dp, devices, micro_batch, global_batch;
};

/// As the row says, or as many as are usual, if the layout goes into them.
std::int64_t usual_devices(RowCells& cells, std::int64_t split) {
  if (cells.row().says("n_gpus")) return cells.count("n_gpus");
  const Setting devices = cells.required("n_gpus");
  const std::int64_t count = parse_integer(devices, 1);
  if (count % split != 0) refuse_missing("n_gpus");
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
    layout.devices = usual_devices(cells, split);
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

void put_devices(RowCells& cells, const Layout& layout, Settings& settings) {
  settings.set(Table::cluster, "device", device_of(cells));
  settings.set(Table::cluster, "devices", whole(layout.devices, "n_gpus"));
  const auto full_node = cells.row().count("gpus_per_node");
  if (!full_node) return;
  const std::int64_t per_node = std::min(*full_node, layout.devices);
  if (layout.devices % per_node != 0) {
    refuse(whole(per_node, "gpus_per_node"),
           fmt::format("must divide n_gpus {} into whole nodes", layout.devices));
  }
  settings.set(Table::cluster, "per-node", whole(per_node, "gpus_per_node"));
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

/// Adapters, where there are any: a row's job follows from them.
void put_adapters(RowCells& cells, Settings& settings) {
  const Setting quant = cells.required("quant");
  const MeasuredRow& row = cells.row();
  const std::int64_t rank = row.count("lora_rank").value_or(0);
  if (rank == 0) {
    const bool adapts = row.says("lora_targets") || !is_none(quant) ||
                        row.text("model").find("LoRA") != std::string::npos;
    if (adapts) refuse_missing("lora_rank");
    settings.set(Table::job, "job", {"pretrain", "", "lora_rank"});
    return;
  }
  Setting targets = cells.required("lora_targets");
  if (targets.text == "unstated") refuse_missing(targets.key);
  targets.text = meanings("lora_target", targets.text, ',');
  settings.set(Table::job, "job", {is_none(quant) ? "lora" : "qlora", "", "quant"});
  settings.set(Table::job, "lora-rank", whole(rank, "lora_rank"));
  settings.set(Table::job, "lora-targets", targets);
  if (!is_none(quant)) settings.set(Table::job, "quant", quant);
}

/// Whether the weights themselves are what an fp32 master would be a copy of.
bool stores_fp32(const TargetTraits& traits, const std::string& precision) {
  const auto known = from_word<Precision>(precision);
  const auto recipe = known ? traits.recipe(*known) : std::nullopt;
  return recipe && recipe->storage == DType::fp32;
}

/// A master copy in fp32 is what `on` means; in another type none can be asked for.
void put_types(RowCells& cells, const TargetTraits& traits, Settings& settings) {
  const MeasuredRow& row = cells.row();
  if (const auto gradients = cells.setting("grad_dtype")) {
    settings.set(Table::job, "grad-dtype", {meaning("dtype", gradients->text), "", "grad_dtype"});
  }
  if (!row.says("master_dtype")) return;
  const Setting master{meaning("dtype", row.text("master_dtype")), "", "master_dtype"};
  if (master.text != "fp32") refuse(master, "must be fp32, or left out", "fp32");
  if (stores_fp32(traits, cells.required("precision").text)) return;
  settings.set(Table::job, "master-weights", {"on", "", master.key});
}

/// What the framework does by itself, else what the model that is known for the activation has.
void put_dropout(RowCells& cells, Settings& settings) {
  for (const char* place : {"hidden", "attention"}) {
    const std::string name = fmt::format("{}_dropout", place);
    auto dropout = cells.usual(name);
    const RowBlock* block = block_with(cells.row().text("act"));
    if (!dropout && block != nullptr) dropout = Setting{block->dropout, "", name};
    if (dropout) settings.set(Table::job, fmt::format("{}-dropout", place), *dropout);
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
  if (const auto knobs = known_meaning("knobs", cells.row().text("framework"))) {
    word("knobs", *knobs, "framework");
  } else if (const auto usual = cells.usual("knobs")) {
    settings.set(Table::candidate, "knobs", *usual);
  }
  if (cells.row().flag("compile").value_or(false)) cells.assume("compile changes nothing");
}

/// Of one stage nothing need be assumed.
PeakOf stage_meant(RowCells& cells, int stages) {
  if (stages == 1) return PeakOf::any;
  const Setting stage = cells.required("peak_of");
  const auto known = from_word<PeakOf>(stage.text);
  if (!known) refuse(stage, "must be one of " + join_words(all_words<PeakOf>()));
  return *known;
}

}  // namespace

std::string target_of(const MeasuredRow& row) {
  return meaning("framework", row.text("framework"));
}

RowProblem problem_of(const MeasuredRow& row) {
  if (!row.says("framework")) refuse_missing("framework");
  const Setting target{target_of(row), "", "framework"};
  const TargetTraits& traits = find_target(target)->traits;
  RowCells cells(row, target.text);
  Settings settings;
  settings.set(Table::job, "target", target);
  const Layout layout = read_layout(cells);
  put_devices(cells, layout, settings);
  put_job(cells, layout, traits, settings);
  put_axes(cells, layout, settings);
  const ModelSpec model = model_of(cells);
  OneCandidate one = read_one_candidate(settings, model);
  const PeakOf peak_of = stage_meant(cells, one.candidate.pp);
  return {std::move(one), peak_of, cells.assumed()};
}

}  // namespace planwright::cli
