#include "cli/row_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <utility>
#include <vector>

#include "cli/row_words.h"
#include "estimator/models.h"

namespace planwright::cli {
namespace {

/// Small letters and digits of a name, its owner and what stands in brackets behind it left out,
/// and that it was cut to some layers.
std::string plain(const std::string& whole) {
  const std::string name = whole.substr(0, whole.find(" cut to "));
  const std::size_t owner = name.rfind('/');
  std::string text;
  for (const char c : name.substr(owner == std::string::npos ? 0 : owner + 1)) {
    if (c == '(') break;
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) text += static_cast<char>(std::tolower(byte));
  }
  return text;
}

struct NamedModel {
  std::string plain_name, plain_id;
  ModelSpec model;
};

const std::vector<NamedModel>& named_models() {
  static const std::vector<NamedModel> kModels = [] {
    std::vector<NamedModel> made;
    for (const std::string& name : estimator::model_presets()) {
      made.push_back({plain(name), plain(estimator::model_origin(name).hf_id),
                      estimator::find_model(name, "", "")});
    }
    return made;
  }();
  return kModels;
}

/// The preset that a row's name means; null if none is.
const ModelSpec* preset_of(const std::string& name) {
  const std::string wanted = plain(meaning("model", name));
  if (wanted.empty()) return nullptr;
  const auto& models = named_models();
  const auto found = std::find_if(models.begin(), models.end(), [&](const NamedModel& each) {
    return each.plain_name == wanted || each.plain_id == wanted;
  });
  return found == models.end() ? nullptr : &found->model;
}

/// Of the presets the name that is most like this one; empty if none is.
std::string nearest_model(const std::string& name) {
  std::vector<std::string> plain_names;
  for (const NamedModel& each : named_models()) plain_names.push_back(each.plain_name);
  const std::string nearest = nearest_word(plain(name), plain_names);
  const auto at = std::find(plain_names.begin(), plain_names.end(), nearest) - plain_names.begin();
  return nearest.empty() ? "" : named_models()[static_cast<std::size_t>(at)].model.name;
}

/// Without a name that is known every size must be.
void require_known_or_described(const RowCells& cells) {
  const std::string& name = cells.row().text("model");
  if (name.empty() || preset_of(name) != nullptr) return;
  for (const char* column : {"layers", "hidden", "heads", "vocab"}) {
    if (cells.knows(column)) continue;
    throw InputError({"", "", "",
                      fmt::format("missing column: {}, and no model is known as {}", column, name),
                      nearest_model(name)});
  }
}

/// Whether a block has every integer that the row gives of it.
bool agrees(const MeasuredRow& row, const ModelSpec& model) {
  const BlockSpec& block = model.block(model.layers() - 1);
  const auto moe = block.moe.value_or(MoeSpec{});
  const std::pair<const char*, std::int64_t> known[] = {
      {"hidden", model.hidden},     {"heads", block.heads},
      {"kv_heads", block.kv_heads}, {"ffn", block.moe ? moe.ffn : block.ffn},
      {"experts", moe.experts},     {"topk", moe.top_k}};
  return std::all_of(std::begin(known), std::end(known), [&](const auto& each) {
    return row.count(each.first).value_or(each.second) == each.second;
  });
}

/// The first `layers` are left; there may be more only where all are alike.
bool cut(ModelSpec& model, std::int64_t layers) {
  if (model.runs.size() == 1) {
    model.runs.front().count = layers;
    return true;
  }
  std::vector<BlockRun> runs;
  for (BlockRun& run : model.runs) {
    run.count = std::min(run.count, layers);
    layers -= run.count;
    if (run.count > 0) runs.push_back(run);
  }
  model.runs = std::move(runs);
  return layers == 0;
}

/// The preset with what a row may change of it: a vocabulary that was filled up, embeddings that
/// were tied or not, layers that were cut off. Nothing where that cannot be.
std::optional<ModelSpec> from_preset(RowCells& cells) {
  const MeasuredRow& row = cells.row();
  const ModelSpec* preset = preset_of(row.text("model"));
  if (preset == nullptr || !agrees(row, *preset)) return std::nullopt;
  ModelSpec model = *preset;
  model.vocab = row.count("vocab").value_or(model.vocab);
  // Most frameworks tie what the model ties, whatever they do of a model that is only described.
  const auto tied = row.says("tied") ? cells.setting("tied") : cells.usual("tied_always");
  if (tied) model.tied_embeddings = tied->text == "1";
  if (!cut(model, row.count("layers").value_or(model.layers()))) return std::nullopt;
  cells.assume(fmt::format("the rest of the model as in {}", preset->name));
  return model;
}

/// What the framework does by itself goes before what usually goes with the activation.
RowBlock usual_block(RowCells& cells) {
  const Setting act = cells.required("act");
  const RowBlock* known = block_with(act.text);
  if (known == nullptr) {
    refuse(act, "must be one of " + join_words(row_activations()),
           nearest_word(act.text, row_activations()));
  }
  RowBlock usual = *known;
  if (const auto norm = cells.usual("norm")) usual.norm = norm->text;
  if (const auto positions = cells.usual("positions")) usual.positions = positions->text;
  if (const auto biases = cells.usual("biases")) usual.biases = biases->text == "1";
  if (cells.row().count("experts").value_or(0) == 0) return usual;
  if (const auto biases = cells.usual("expert_biases")) usual.biases = biases->text == "1";
  return usual;
}

std::int64_t head_dim(RowCells& cells, std::int64_t heads) {
  const std::int64_t hidden = cells.count("hidden");
  if (hidden % heads != 0) {
    refuse(cells.required("heads"), fmt::format("must divide hidden {}", hidden));
  }
  return hidden / heads;
}

std::int64_t kv_heads(RowCells& cells, std::int64_t heads) {
  if (cells.row().says("kv_heads")) return cells.count("kv_heads");
  cells.assume(fmt::format("kv_heads {}", heads));
  return heads;
}

/// What the row says, or four times the hidden size where a framework takes that: of gated MLPs two
/// thirds of it, in whole tiles, since they have three matrices in the place of two.
std::int64_t mlp_width(RowCells& cells, bool gated) {
  constexpr std::int64_t kTile = 64;
  const Setting said = cells.required("ffn");
  if (said.text != "4 hidden") return cells.count("ffn");
  const std::int64_t wide = 4 * cells.count("hidden");
  const std::int64_t width = gated ? wide * 2 / 3 / kTile * kTile : wide;
  cells.assume(fmt::format("ffn {}", width));
  return width;
}

BlockSpec block_of(RowCells& cells, const RowBlock& usual) {
  BlockSpec block;
  block.heads = cells.count("heads");
  block.head_dim = head_dim(cells, block.heads);
  block.kv_heads = kv_heads(cells, block.heads);
  block.mlp = from_word<MlpKind>(usual.mlp).value();
  block.activation = from_word<Activation>(usual.activation).value();
  block.norm = from_word<NormKind>(usual.norm).value();
  block.qkv_bias = block.out_bias = block.mlp_bias = usual.biases;
  const std::int64_t ffn = mlp_width(cells, block.mlp == MlpKind::gated);
  const std::int64_t experts = cells.row().count("experts").value_or(0);
  if (experts == 0) {
    block.ffn = ffn;
    return block;
  }
  block.moe = MoeSpec{.experts = experts, .top_k = cells.count("topk"), .ffn = ffn};
  cells.assume("experts in every layer, none of them shared");
  return block;
}

ModelSpec from_cells(RowCells& cells) {
  ModelSpec model;
  const std::int64_t layers = cells.count("layers");
  model.hidden = cells.count("hidden");
  const RowBlock usual = usual_block(cells);
  model.runs = {{.count = layers, .block = block_of(cells, usual)}};
  model.vocab = cells.count("vocab");
  model.tied_embeddings = cells.flag("tied");
  model.name = cells.row().says("model") ? cells.row().text("model") : usual.like + "-like";
  model.family = usual.family;
  model.positions = from_word<Positions>(usual.positions).value();
  model.max_positions = cells.count("seq_len");
  cells.assume(fmt::format("blocks as {}'s: {}, {}, {} positions, {}", usual.like, usual.mlp,
                           usual.norm, usual.positions, usual.biases ? "biases" : "no biases"));
  return model;
}

}  // namespace

ModelSpec model_of(RowCells& cells) {
  if (auto known = from_preset(cells)) return *std::move(known);
  require_known_or_described(cells);
  return from_cells(cells);
}

}  // namespace planwright::cli
